"""SlangPy's core, as far as programs import from it."""
