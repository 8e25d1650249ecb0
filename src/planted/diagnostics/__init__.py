"""Do the data meet the assumptions, and is the answer to be believed?"""
