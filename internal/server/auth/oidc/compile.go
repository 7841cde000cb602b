package oidc

import (
	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/millrace/millrace/internal/server/auth/expression"
)

// mapping makes users of claims. It never changes.
type mapping struct {
	from     *JWT
	username *expression.Expression // nil if the claim is taken as it is; the same with groups and uid
	groups   *expression.Expression
	uid      *expression.Expression
	extra    []keyed
	claims   []rule // about the claims
	users    []rule // about the user
}

// keyed is an expression whose value is kept under a key.
type keyed struct {
	key string
	*expression.Expression
}

// rule is an expression that must be true, and what to say otherwise.
type rule struct {
	*expression.Expression
	message string
}

// compiler compiles the expressions of one issuer, and gathers what is wrong with them.
type compiler struct {
	errs field.ErrorList
	// These say whether the user is named by a claim that anybody could have made up, and whether somebody looks if it
	// is verified.
	namesEmail, namesVerified bool
}

func (c *compiler) fail(err *field.Error) { c.errs = append(c.errs, err) }

// claims compiles an expression about claims; nil if it cannot be.
func (c *compiler) claims(text string, returns *cel.Type, path *field.Path) *expression.Expression {
	e, err := expression.Claims(text, returns)
	if err != nil {
		c.fail(celError(err, text, path))
		return nil
	}
	return e
}

// celError is what is wrong with an expression as an error of its field.
func celError(err *apiservercel.Error, text string, path *field.Path) *field.Error {
	if err.Type == apiservercel.ErrorTypeInvalid {
		return field.Invalid(path, text, err.Detail)
	}
	return field.InternalError(path, err)
}

// compileMapping compiles and checks what one issuer's claims are made into.
func compileMapping(j *JWT, path *field.Path) (*mapping, field.ErrorList) {
	c, m := &compiler{}, &mapping{from: j}
	m.claims = c.claimRules(j.ClaimValidationRules, path.Child("claimValidationRules"))
	c.mappings(m, &j.ClaimMappings, path.Child("claimMappings"))
	m.users = c.userRules(j.UserValidationRules, path.Child("userValidationRules"))
	return m, c.errs
}

func (c *compiler) claimRules(rules []ClaimValidationRule, path *field.Path) (all []rule) {
	claims, texts := map[string]bool{}, map[string]bool{}
	for i, r := range rules {
		at := path.Index(i)
		switch {
		case r.Claim != "" && r.Expression != "":
			c.fail(field.Invalid(at, r.Claim, "claim and expression can't both be set"))
		case r.Claim == "" && r.Expression == "":
			c.fail(field.Required(at, "claim or expression is required"))
		case r.Claim != "":
			if r.Message != "" {
				c.fail(field.Invalid(at.Child("message"), r.Message, "may not be specified when claim is set"))
			}
			if claims[r.Claim] {
				c.fail(field.Duplicate(at.Child("claim"), r.Claim))
			}
			claims[r.Claim] = true
		default:
			if r.RequiredValue != "" {
				c.fail(field.Invalid(at.Child("requiredValue"), r.RequiredValue, "may not be specified when expression is set"))
			}
			if texts[r.Expression] {
				c.fail(field.Duplicate(at.Child("expression"), r.Expression))
				continue
			}
			texts[r.Expression] = true
			if e := c.claims(r.Expression, cel.BoolType, at.Child("expression")); e != nil {
				all = append(all, rule{e, r.Message})
				c.namesVerified = c.namesVerified || e.Names("email_verified")
			}
		}
	}
	return all
}

func (c *compiler) mappings(m *mapping, from *ClaimMappings, path *field.Path) {
	m.username = c.prefixed(&from.Username, path.Child("username"), true)
	if e := m.username; e != nil {
		c.namesEmail = e.Names("email")
		c.namesVerified = c.namesVerified || e.Names("email_verified")
	}
	m.groups = c.prefixed(&from.Groups, path.Child("groups"), false)
	switch uid := from.UID; {
	case uid.Claim != "" && uid.Expression != "":
		c.fail(field.Invalid(path.Child("uid"), "", "claim and expression can't both be set"))
	case uid.Expression != "":
		m.uid = c.claims(uid.Expression, cel.AnyType, path.Child("uid", "expression"))
	}
	seen := map[string]bool{}
	for i, x := range from.Extra {
		at := path.Child("extra").Index(i)
		c.errs = append(c.errs, checkKey(x.Key, at.Child("key"))...)
		switch {
		case seen[x.Key]:
			c.fail(field.Duplicate(at.Child("key"), x.Key))
		case x.ValueExpression == "":
			c.fail(field.Required(at.Child("valueExpression"), ""))
		default:
			if e := c.claims(x.ValueExpression, cel.AnyType, at.Child("valueExpression")); e != nil {
				m.extra = append(m.extra, keyed{x.Key, e})
				c.namesVerified = c.namesVerified || e.Names("email_verified")
			}
		}
		seen[x.Key] = true
	}
	if c.namesEmail && !c.namesVerified {
		c.fail(field.Invalid(path.Child("username", "expression"), from.Username.Expression,
			"claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression "+
				"or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression"))
	}
}

func (c *compiler) prefixed(p *PrefixedClaimOrExpression, path *field.Path, needed bool) *expression.Expression {
	switch {
	case p.Claim != "" && p.Expression != "":
		c.fail(field.Invalid(path, "", "claim and expression can't both be set"))
	case p.Expression != "":
		if p.Prefix != nil {
			c.fail(field.Invalid(path.Child("prefix"), *p.Prefix, "may not be specified when expression is set"))
		}
		return c.claims(p.Expression, cel.AnyType, path.Child("expression"))
	case p.Claim != "" && p.Prefix == nil:
		c.fail(field.Required(path.Child("prefix"), "prefix is required when claim is set. It can be set to an empty string to disable prefixing"))
	case p.Claim == "" && needed:
		c.fail(field.Required(path, "claim or expression is required"))
	}
	return nil
}

func (c *compiler) userRules(rules []UserValidationRule, path *field.Path) (all []rule) {
	seen := map[string]bool{}
	for i, r := range rules {
		at := path.Index(i).Child("expression")
		switch {
		case r.Expression == "":
			c.fail(field.Required(at, ""))
		case seen[r.Expression]:
			c.fail(field.Duplicate(at, r.Expression))
		default:
			e, err := expression.User(r.Expression)
			if err != nil {
				c.fail(celError(err, r.Expression, at))
			} else {
				all = append(all, rule{e, r.Message})
			}
		}
		seen[r.Expression] = true
	}
	return all
}
