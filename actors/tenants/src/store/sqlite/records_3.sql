-- Entries of logins and entries of wrong passwords are bounded each for themselves.
DROP INDEX audit_login;
CREATE INDEX audit_login ON audit (number) WHERE verb IN ('login', 'logout');
CREATE INDEX audit_refusal ON audit (number) WHERE verb = 'login.refused';
