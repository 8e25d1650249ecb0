"""When may a network be called the planted one?"""
