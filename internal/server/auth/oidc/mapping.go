package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/auth/expression"
)

// claims are those of a token. Names are compared letter by letter, as RFC 7519 wants it.
type claims map[string]json.RawMessage

var errNoClaim = errors.New("claim not present")

// read decodes a claim that must be there.
func (c claims) read(name string, into any) error {
	text, ok := c[name]
	if !ok {
		return errNoClaim
	}
	return json.Unmarshal(text, into)
}

// user makes a user of claims, unless a rule forbids it.
func (m *mapping) user(ctx context.Context, c claims) (u auth.User, err error) {
	value := expression.ClaimsValue(c)
	if u.Name, err = m.name(ctx, c, value); err != nil {
		return u, err
	}
	if u.Groups, err = m.groupsOf(ctx, c, value); err != nil {
		return u, err
	}
	if u.UID, err = m.uidOf(ctx, c, value); err != nil {
		return u, err
	}
	if u.Extra, err = m.extraOf(ctx, c, value); err != nil {
		return u, err
	}
	if err := m.required(c); err != nil {
		return u, err
	}
	if err := check(ctx, m.claims, value); err != nil {
		return u, fmt.Errorf("oidc: error evaluating claim validation expression: %w", err)
	}
	if len(m.users) > 0 {
		if err := check(ctx, m.users, expression.UserValue(u)); err != nil {
			return u, fmt.Errorf("oidc: error evaluating user info validation rule: %w", err)
		}
	}
	return u, nil
}

func (m *mapping) name(ctx context.Context, c claims, value any) (string, error) {
	if m.username != nil {
		name, err := text(ctx, m.username, value, "username")
		if err == nil && name == "" {
			err = errors.New("oidc: empty username via CEL expression is not allowed")
		}
		return name, err
	}
	from, name := m.from.ClaimMappings.Username, ""
	if err := c.read(from.Claim, &name); err != nil {
		return "", fmt.Errorf("oidc: parse username claims %q: %w", from.Claim, err)
	}
	if _, said := c["email_verified"]; said && from.Claim == "email" {
		var verified bool
		if err := c.read("email_verified", &verified); err != nil {
			return "", fmt.Errorf("oidc: parse 'email_verified' claim: %w", err)
		}
		if !verified {
			return "", errors.New("oidc: email not verified")
		}
	}
	if name == "" {
		return "", fmt.Errorf("oidc: the claim %q of the user name is empty", from.Claim)
	}
	return prefix(from) + name, nil
}

func prefix(p PrefixedClaimOrExpression) string {
	if p.Prefix == nil {
		return ""
	}
	return *p.Prefix
}

func (m *mapping) groupsOf(ctx context.Context, c claims, value any) ([]string, error) {
	from := m.from.ClaimMappings.Groups
	if _, there := c[from.Claim]; from.Claim != "" && there {
		groups, err := c.texts(from.Claim)
		if err != nil {
			return nil, fmt.Errorf("oidc: parse groups claim %q: %w", from.Claim, err)
		}
		for i := range groups {
			groups[i] = prefix(from) + groups[i]
		}
		return groups, nil
	}
	if m.groups == nil {
		return nil, nil
	}
	groups, err := texts(ctx, m.groups, value)
	if err != nil {
		return nil, fmt.Errorf("oidc: error evaluating group claim expression: %w", err)
	}
	return groups, nil
}

// texts reads a claim that is a text or a list of them.
func (c claims) texts(name string) ([]string, error) {
	var many []string
	if c.read(name, &many) == nil {
		return many, nil
	}
	var single string
	if err := c.read(name, &single); err != nil {
		return nil, err
	}
	return []string{single}, nil
}

func (m *mapping) uidOf(ctx context.Context, c claims, value any) (uid string, err error) {
	if claim := m.from.ClaimMappings.UID.Claim; claim != "" {
		if err := c.read(claim, &uid); err != nil {
			return "", fmt.Errorf("oidc: parse uid claim %q: %w", claim, err)
		}
		return uid, nil
	}
	if m.uid == nil {
		return "", nil
	}
	return text(ctx, m.uid, value, "uid")
}

func (m *mapping) extraOf(ctx context.Context, c claims, value any) (map[string][]string, error) {
	extra := map[string][]string{}
	var id string
	if c.read("jti", &id) == nil && id != "" {
		extra[auth.CredentialID] = []string{"JTI=" + id}
	}
	for _, x := range m.extra {
		values, err := texts(ctx, x.Expression, value)
		if err != nil {
			return nil, fmt.Errorf("oidc: error evaluating extra claim expression: %s: %w", x.Text, err)
		}
		if len(values) > 0 {
			extra[x.key] = values
		}
	}
	if len(extra) == 0 {
		return nil, nil
	}
	return extra, nil
}

// required looks whether claims have the values that rules want.
func (m *mapping) required(c claims) error {
	for _, r := range m.from.ClaimValidationRules {
		if r.Claim == "" {
			continue
		}
		var is string
		switch err := c.read(r.Claim, &is); {
		case errors.Is(err, errNoClaim):
			return fmt.Errorf("oidc: required claim %s not present in ID token", r.Claim)
		case err != nil:
			return fmt.Errorf("oidc: parse claim %s: %w", r.Claim, err)
		case is != r.RequiredValue:
			return fmt.Errorf("oidc: required claim %s value does not match. Got = %s, want = %s", r.Claim, is, r.RequiredValue)
		}
	}
	return nil
}

// check evaluates rules, all of which must be true.
func check(ctx context.Context, rules []rule, value any) error {
	for _, r := range rules {
		out, err := r.Evaluate(ctx, value)
		if err != nil {
			return err
		}
		switch yes, ok := out.Value().(bool); {
		case !ok:
			return errors.New("validation expression must return a boolean")
		case !yes:
			return fmt.Errorf("validation expression '%s' failed: %s", r.Text, r.message)
		}
	}
	return nil
}

// text is what an expression comes to that must be a text.
func text(ctx context.Context, e *expression.Expression, value any, what string) (string, error) {
	out, err := e.Evaluate(ctx, value)
	if err != nil {
		return "", fmt.Errorf("oidc: error evaluating %s claim expression: %w", what, err)
	}
	s, ok := out.(types.String)
	if !ok {
		return "", fmt.Errorf("oidc: error evaluating %s claim expression: %s claim expression must return a string", what, what)
	}
	return string(s), nil
}

var errNoTexts = errors.New("expression must return a string or a list of strings")

// texts are what an expression comes to that must be a text, a list of texts, or null. Empty ones do not count.
func texts(ctx context.Context, e *expression.Expression, value any) ([]string, error) {
	out, err := e.Evaluate(ctx, value)
	if err != nil {
		return nil, err
	}
	var all []string
	add := func(v ref.Val) error {
		s, ok := v.(types.String)
		if !ok {
			return errNoTexts
		}
		if s != "" {
			all = append(all, string(s))
		}
		return nil
	}
	switch v := out.(type) {
	case types.Null:
		return nil, nil
	case types.String:
		err := add(v)
		return all, err
	case traits.Lister:
		for it := v.Iterator(); it.HasNext() == types.True; {
			if err := add(it.Next()); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	return nil, errNoTexts
}
