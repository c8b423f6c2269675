"""Design neural networks without training them."""
