"""Does a rebuilt environment answer as the original did? Recorded conversations tell."""
