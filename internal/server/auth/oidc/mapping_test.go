package oidc

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// compiled is a mapping of what is said in YAML, beside a good issuer.
func compiled(t *testing.T, text string) (*mapping, string) {
	t.Helper()
	var j JWT
	if err := yaml.UnmarshalStrict([]byte(text), &j); err != nil {
		t.Fatal(err)
	}
	j.Issuer = Issuer{URL: "https://issuer.example.com", Audiences: []string{"a"}}
	all, errs := compileAll(&Configuration{JWT: []JWT{j}}, nil)
	if err := errs.ToAggregate(); err != nil {
		return nil, err.Error()
	}
	return all[0], ""
}

func TestClaimsAreMadeIntoUsers(t *testing.T) {
	const claims = `{"sub":"alice","email":"a@example.com","email_verified":true,"hd":"example.com","roles":["dev","","ops"],"one":"x","count":7,
		"nested":{"a.b":["in"]},"example.com/team":"blue","nothing":null,"empty":""}`
	for _, c := range []struct{ mappings, want string }{
		{`claimMappings: {username: {claim: sub, prefix: "i:"}, groups: {claim: roles, prefix: "g:"}, uid: {claim: sub}}`, "i:alice alice [g:dev g: g:ops] map[]"},
		{`claimMappings: {username: {claim: email, prefix: ""}, groups: {claim: one, prefix: ""}}`, "a@example.com  [x] map[]"},
		{`claimMappings: {username: {expression: "claims.sub + ':' + claims.hd"}, groups: {expression: claims.roles}}`, "alice:example.com  [dev ops] map[]"},
		{`claimMappings: {username: {expression: claims.sub}, groups: {expression: claims.one}, uid: {expression: "claims.sub + '-uid'"}}`, "alice alice-uid [x] map[]"},
		{`claimMappings: {username: {expression: claims.sub}, groups: {expression: claims.nothing}}`, "alice  [] map[]"},
		{`claimMappings: {username: {expression: claims.sub}, groups: {expression: claims.nested.a__dot__b}}`, "alice  [in] map[]"},
		{`claimMappings: {username: {expression: "claims['example.com/team']"}}`, "blue  [] map[]"},
		{`claimMappings: {username: {expression: "claims.?none.orValue('guest')"}, extra: [{key: example.com/roles, valueExpression: claims.roles}, {key: example.com/none, valueExpression: claims.empty}]}`,
			"guest  [] map[example.com/roles:[dev ops]]"},
		{`{claimMappings: {username: {expression: "claims.email_verified ? claims.email : claims.sub"}}, claimValidationRules: [{expression: "claims.hd == 'example.com'"}, {claim: one, requiredValue: x}],
			userValidationRules: [{expression: "!user.username.startsWith('system:')"}, {expression: "user.groups.all(g, g != 'x')"}]}`, "a@example.com  [] map[]"},

		{`claimMappings: {username: {claim: none, prefix: ""}}`, `oidc: parse username claims "none": claim not present`},
		{`claimMappings: {username: {claim: count, prefix: ""}}`, `oidc: parse username claims "count": json: cannot unmarshal`},
		{`claimMappings: {username: {expression: claims.count}}`, "oidc: error evaluating username claim expression: username claim expression must return a string"},
		{`claimMappings: {username: {expression: claims.empty}}`, "oidc: empty username via CEL expression is not allowed"},
		{`claimMappings: {username: {expression: claims.none}}`, "oidc: error evaluating username claim expression: expression 'claims.none' resulted in error: no such key: none"},
		{`claimMappings: {username: {expression: claims.sub}, groups: {expression: claims.count}}`, "oidc: error evaluating group claim expression: expression must return a string or a list of strings"},
		{`claimMappings: {username: {expression: claims.sub}, groups: {expression: "[1, 2]"}}`, "oidc: error evaluating group claim expression: expression must return a string or a list of strings"},
		{`claimMappings: {username: {expression: claims.sub}, extra: [{key: example.com/count, valueExpression: claims.count}]}`,
			"oidc: error evaluating extra claim expression: claims.count: expression must return a string or a list of strings"},
		{`{claimMappings: {username: {claim: sub, prefix: ""}}, claimValidationRules: [{claim: hd, requiredValue: else}]}`,
			"oidc: required claim hd value does not match. Got = example.com, want = else"},
		{`{claimMappings: {username: {claim: sub, prefix: ""}}, claimValidationRules: [{claim: none, requiredValue: else}]}`, "oidc: required claim none not present in ID token"},
		{`{claimMappings: {username: {claim: sub, prefix: ""}}, claimValidationRules: [{expression: "claims.count > 7", message: too few}]}`,
			"oidc: error evaluating claim validation expression: validation expression 'claims.count > 7' failed: too few"},
		{`{claimMappings: {username: {claim: sub, prefix: "system:"}}, userValidationRules: [{expression: "!user.username.startsWith('system:')", message: reserved}]}`,
			"oidc: error evaluating user info validation rule: validation expression '!user.username.startsWith('system:')' failed: reserved"},
	} {
		m, wrong := compiled(t, c.mappings)
		if m == nil {
			t.Errorf("%s: %s", c.mappings, wrong)
			continue
		}
		var set map[string]json.RawMessage
		if err := json.Unmarshal([]byte(claims), &set); err != nil {
			t.Fatal(err)
		}
		u, err := m.user(t.Context(), set)
		got := fmt.Sprint(u.Name, " ", u.UID, " ", u.Groups, " ", u.Extra)
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s:\n%s\nand not\n%s", c.mappings, got, c.want)
		}
	}
}

func TestAnEmailThatIsNotVerifiedNamesNobody(t *testing.T) {
	m, _ := compiled(t, `claimMappings: {username: {claim: email, prefix: ""}}`)
	for text, want := range map[string]bool{
		`{"email":"a@b"}`: true, `{"email":"a@b","email_verified":true}`: true,
		`{"email":"a@b","email_verified":false}`: false, `{"email":"a@b","email_verified":"true"}`: false, `{"email":"a@b","email_verified":null}`: false,
	} {
		var set map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &set); err != nil {
			t.Fatal(err)
		}
		if u, err := m.user(t.Context(), set); (err == nil) != want {
			t.Errorf("%s: %+v, %v", text, u, err)
		}
	}
}

func TestMappingsThatCannotBeUsed(t *testing.T) {
	const email = "claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression"
	const name = "claimMappings: {username: {claim: sub, prefix: ''}"
	for text, want := range map[string]string{
		`claimMappings: {}`:                                                                                   "jwt[0].claimMappings.username: Required value: claim or expression is required",
		`claimMappings: {username: {claim: sub}}`:                                                             "jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing",
		`claimMappings: {username: {claim: sub, expression: claims.sub}}`:                                     `jwt[0].claimMappings.username: Invalid value: "": claim and expression can't both be set`,
		`claimMappings: {username: {expression: claims.sub, prefix: "x"}}`:                                    `jwt[0].claimMappings.username.prefix: Invalid value: "x": may not be specified when expression is set`,
		`claimMappings: {username: {expression: claims.email}}`:                                               `jwt[0].claimMappings.username.expression: Invalid value: "claims.email": ` + email,
		`claimMappings: {username: {expression: "claims.?email.orValue('')"}}`:                                `jwt[0].claimMappings.username.expression: Invalid value: "claims.?email.orValue('')": ` + email,
		`claimMappings: {username: {expression: "user.name"}}`:                                                `jwt[0].claimMappings.username.expression: Invalid value: "user.name": compilation failed: ERROR: <input>:1:1: undeclared reference to 'user' (in container '')`,
		name + `, groups: {claim: g}}`:                                                                        "jwt[0].claimMappings.groups.prefix: Required value: prefix is required",
		name + `, uid: {claim: a, expression: b}}`:                                                            `jwt[0].claimMappings.uid: Invalid value: "": claim and expression can't both be set`,
		name + `, extra: [{key: a, valueExpression: "'x'"}]}`:                                                 `jwt[0].claimMappings.extra[0].key: Invalid value: "a": must be a domain-prefixed path`,
		name + `, extra: [{key: A.b/C, valueExpression: "'x'"}]}`:                                             `must be lowercase`,
		name + `, extra: [{key: x.k8s.io/c, valueExpression: "'x'"}]}`:                                        `jwt[0].claimMappings.extra[0].key: Invalid value: "x.k8s.io/c": k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use`,
		name + `, extra: [{key: a.b/c}]}`:                                                                     "jwt[0].claimMappings.extra[0].valueExpression: Required value",
		name + `, extra: [{key: a.b/c, valueExpression: "'x'"}, {key: a.b/c, valueExpression: "'y'"}]}`:       `jwt[0].claimMappings.extra[1].key: Duplicate value: "a.b/c"`,
		name + "}\nclaimValidationRules: [{}]":                                                                "jwt[0].claimValidationRules[0]: Required value: claim or expression is required",
		name + "}\nclaimValidationRules: [{claim: a, expression: b}]":                                         `jwt[0].claimValidationRules[0]: Invalid value: "a": claim and expression can't both be set`,
		name + "}\nclaimValidationRules: [{claim: a, message: b}]":                                            `jwt[0].claimValidationRules[0].message: Invalid value: "b": may not be specified when claim is set`,
		name + "}\nclaimValidationRules: [{claim: a}, {claim: a}]":                                            `jwt[0].claimValidationRules[1].claim: Duplicate value: "a"`,
		name + "}\nclaimValidationRules: [{expression: 'true', requiredValue: a}]":                            `jwt[0].claimValidationRules[0].requiredValue: Invalid value: "a": may not be specified when expression is set`,
		name + "}\nclaimValidationRules: [{expression: '1'}]":                                                 `jwt[0].claimValidationRules[0].expression: Invalid value: "1": must evaluate to bool`,
		name + "}\nclaimValidationRules: [{expression: 'claims.a == 1'}, {expression: 'claims.a == 1'}]":      `jwt[0].claimValidationRules[1].expression: Duplicate value: "claims.a == 1"`,
		name + "}\nuserValidationRules: [{}]":                                                                 "jwt[0].userValidationRules[0].expression: Required value",
		name + "}\nuserValidationRules: [{expression: user.username}]":                                        `jwt[0].userValidationRules[0].expression: Invalid value: "user.username": must evaluate to bool`,
		name + "}\nuserValidationRules: [{expression: 'user.uid == \"\"'}, {expression: 'user.uid == \"\"'}]": `jwt[0].userValidationRules[1].expression: Duplicate value: "user.uid == \"\""`,
	} {
		if _, got := compiled(t, text); !strings.Contains(got, want) {
			t.Errorf("%s:\n%s\nand not\n%s", text, got, want)
		}
	}
	if _, wrong := compiled(t, `{claimMappings: {username: {expression: claims.email}, extra: [{key: a.b/c, valueExpression: "string(claims.email_verified)"}]}}`); wrong != "" {
		t.Error(wrong)
	}
}
