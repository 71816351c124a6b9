"""`python -m epochfence.cli`"""

from . import main

main()
