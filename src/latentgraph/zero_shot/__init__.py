"""Zero-shot learning: from the word vectors of classes to their classifiers, through given and learned graphs."""
