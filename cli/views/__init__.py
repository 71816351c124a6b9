"""Commands that list and draw systems, browse them, or start a new one."""
