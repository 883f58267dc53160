"""`python -m regatta` is the program."""

import os
import sys

from regatta import program

os.execv(program(), ["regatta", *sys.argv[1:]])
