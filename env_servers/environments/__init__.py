"""The environments of this distribution, one package each; none imports another."""
