"""Looking at runs while they go on and afterwards: in the terminal and as a local web page; nothing is ever changed."""
