package oidc

import (
	"strings"
	"testing"
)

const mapped = "claimMappings: {username: {claim: sub, prefix: ''}}"

func TestConfigurationsAreReadStrictly(t *testing.T) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
	for text, want := range map[string]string{
		head: "",
		"apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthenticationConfiguration\njwt: []\n": "",
		"":                                    "empty config data",
		"jwt: []\n":                           "Object 'Kind' is missing",
		"kind: AuthenticationConfiguration\n": "Object 'apiVersion' is missing",
		"apiVersion: v1\nkind: Pod\n":         `no kind "Pod" is registered for version "v1"`,
		head + "jwt: []\njwt: []\n":           `key "jwt" already set in map`,
		head + "jwt: [{issuer: {uri: a}}]\n":  `strict decoding error: unknown field "jwt[0].issuer.uri"`,
		head + "JWT: []\n":                    `strict decoding error: unknown field "JWT"`,
		head + "jwt: 7\n":                     "cannot unmarshal number into Go struct field Configuration.jwt",
		head + "\t":                           "couldn't get version/kind; json parse error: yaml: line 3",
	} {
		_, err := Parse([]byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, and not %q", text, err, want)
		}
	}
}

func TestIssuersThatCannotBeUsed(t *testing.T) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n"
	issuer := func(text string) string { return head + "- issuer: {" + text + "}\n  " + mapped + "\n" }
	for text, want := range map[string]string{
		issuer(`audiences: [a]`):                                                                                          "jwt[0].issuer.url: Required value",
		issuer(`url: "http://a", audiences: [a]`):                                                                         `jwt[0].issuer.url: Invalid value: "http://a": URL scheme must be https`,
		issuer(`url: "https://u:p@a", audiences: [a]`):                                                                    "URL must not contain a username or password",
		issuer(`url: "https://a?b", audiences: [a]`):                                                                      "URL must not contain a query",
		issuer(`url: "https://a#b", audiences: [a]`):                                                                      "URL must not contain a fragment",
		issuer(`url: "https://a:b", audiences: [a]`):                                                                      `jwt[0].issuer.url: Invalid value: "https://a:b": parse "https://a:b": invalid port ":b" after host`,
		issuer(`url: "https://own", audiences: [a]`):                                                                      `jwt[0].issuer.url: Invalid value: "https://own": URL must not overlap with disallowed issuers: [https://own]`,
		issuer(`url: "https://a"`):                                                                                        "jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required",
		issuer(`url: "https://a", audiences: [""]`):                                                                       "jwt[0].issuer.audiences[0]: Required value",
		issuer(`url: "https://a", audiences: [a, a], audienceMatchPolicy: MatchAny`):                                      `jwt[0].issuer.audiences[1]: Duplicate value: "a"`,
		issuer(`url: "https://a", audiences: [a, b]`):                                                                     `jwt[0].issuer.audienceMatchPolicy: Invalid value: "": audienceMatchPolicy must be MatchAny for multiple audiences`,
		issuer(`url: "https://a", audiences: [a], audienceMatchPolicy: All`):                                              `jwt[0].issuer.audienceMatchPolicy: Invalid value: "All": audienceMatchPolicy must be empty or MatchAny for single audience`,
		issuer(`url: "https://a", audiences: [a], discoveryURL: "https://a/"`):                                            `jwt[0].issuer.discoveryURL: Invalid value: "https://a/": discoveryURL must be different from URL`,
		issuer(`url: "https://a", audiences: [a], discoveryURL: "http://b"`):                                              `jwt[0].issuer.discoveryURL: Invalid value: "http://b": URL scheme must be https`,
		issuer(`url: "https://a", audiences: [a], certificateAuthority: x`):                                               `jwt[0].issuer.certificateAuthority: Invalid value: "<omitted>": data does not contain any valid RSA or ECDSA certificates`,
		issuer(`url: "https://a", audiences: [a], egressSelectorType: x`):                                                 `jwt[0].issuer.egressSelectorType: Invalid value: "x": egress selector must be either controlplane or cluster`,
		issuer(`url: "https://a", audiences: [a], egressSelectorType: cluster`):                                           `jwt[0].issuer.egressSelectorType: Invalid value: "cluster": egress lookup required`,
		issuer(`url: "https://a", audiences: [a]`) + strings.TrimPrefix(issuer(`url: "https://a", audiences: [a]`), head): `jwt[1].issuer.url: Duplicate value: "https://a"`,
		issuer(`url: "https://a", audiences: [a], discoveryURL: "https://d"`) + strings.TrimPrefix(issuer(`url: "https://b", audiences: [a], discoveryURL: "https://d"`), head): `jwt[1].issuer.discoveryURL: Duplicate value: "https://d"`,
		head + strings.Repeat("- {}\n", 65):                                          "jwt: Too many: 65: must have at most 64 items",
		strings.TrimSuffix(head, "jwt:\n") + "anonymous: {conditions: [{path: /a}]}": "anonymous.conditions: Invalid value: [{\"path\":\"/a\"}]: enabled should be set to true when conditions are defined",
		issuer(`url: "https://a", audiences: [a, b], audienceMatchPolicy: MatchAny`): "",
	} {
		c, err := Parse([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if err = Validate(c, "https://own").ToAggregate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v\nand not\n%s", text, err, want)
		}
	}
}

func FuzzConfiguration(f *testing.F) {
	f.Add([]byte("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer: {url: 'https://a', audiences: [a]}\n  " + mapped + "\n"))
	f.Add([]byte("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous: {enabled: true, conditions: [{path: /livez}]}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse(text)
		if err != nil {
			return
		}
		if Validate(c).ToAggregate() != nil {
			return
		}
		if _, err := New(Options{Configuration: c}); err != nil {
			t.Errorf("%s is valid and cannot be used: %v", text, err)
		}
	})
}
