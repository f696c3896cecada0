"""The folder in which a trained model is kept: never half written, never mixed, never a pickle.

Every file of a model has a name that was never used before, and `manifest.json` says which files belong to the model.
A save writes new files and then replaces the manifest, in one step of the file system: at any moment, also after a
power cut or `kill -9`, the folder holds the old model or the new one, complete. Files that the manifest does not name
are deleted afterwards.
"""

from latentgraph.store.loading import Parts as Parts
from latentgraph.store.loading import load as load
from latentgraph.store.saving import save as save

__all__ = ["Parts", "load", "save"]
