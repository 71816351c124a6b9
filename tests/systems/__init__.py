"""Small systems that several tests take."""
