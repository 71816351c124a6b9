"""The playground: the explorer of any system in a browser, with known bugs as puzzles."""
