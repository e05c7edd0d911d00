"""The tier `virtual`: a Linux network stack as an ordinary process, in virtual time."""
