"""The page that draws one history on a time line."""
