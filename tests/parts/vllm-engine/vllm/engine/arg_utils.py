class AsyncEngineArgs:
    def __init__(self, model, **others):
        self.model, self.others = model, others
