"""The English-German grammar that the embedded corpus is drawn from.

words        what a word is, and how a line of a table gives it
lexicon      the words
phrases      noun phrases: case, number, gender, endings
clauses      word order: statement, question, subordinate clause
choices      which words go together
descriptions, patterns, questions, compounds    the sentence patterns
"""
