"""Quality beside speed: does a deployment still answer as well as another, and how sure is that?"""
