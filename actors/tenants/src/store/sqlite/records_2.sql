-- Entries of logins and entries of changes are bounded each for themselves.
CREATE INDEX audit_login ON audit (number) WHERE verb IN ('login', 'login.refused', 'logout');
CREATE INDEX audit_change ON audit (number) WHERE verb NOT IN ('login', 'login.refused', 'logout');
