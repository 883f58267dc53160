"""Writes a tokenizer of single bytes, in the files of a Hugging Face tokenizer: make_tokenizer.py FOLDER"""

import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

ids = {character: number for number, character in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
ids["</s>"] = len(ids)
tokenizer = Tokenizer(models.BPE(vocab=ids, merges=[]))
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, eos_token="</s>", pad_token="</s>", model_max_length=100_000, chat_template=template
).save_pretrained(sys.argv[1])
