"""Which tiles a loop nest visits, and how many of each kind."""
