"""``python -m planted`` is the command ``planted``."""

from planted.cli import main

if __name__ == "__main__":
    main()
