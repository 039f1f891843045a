"""WebShop: a shop to search, browse and buy in, as text and as a web site."""
