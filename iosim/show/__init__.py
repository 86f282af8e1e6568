"""Pictures of what was counted: figures, and the moving picture. Nothing is run here."""
