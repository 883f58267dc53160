from enum import Enum


class UsageContext(str, Enum):
    ENGINE_CONTEXT = "ENGINE_CONTEXT"
    OPENAI_API_SERVER = "OPENAI_API_SERVER"
