"""The known bugs, by the machine that has them."""
