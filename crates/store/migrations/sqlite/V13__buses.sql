-- Whose event it is, if an instance or a worker emitted it: what they emit is carried out, in the order of this key.
ALTER TABLE events ADD COLUMN emitted_by TEXT;
