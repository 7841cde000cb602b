package oidc

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/time/rate"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/auth/oidc/oidctest"
)

const api = "https://api.example.com"

// configuration believes an issuer's subjects.
func configuration(i *oidctest.Issuer) *Configuration {
	return &Configuration{JWT: []JWT{{
		Issuer:        Issuer{URL: i.URL, Audiences: []string{"millrace"}, CertificateAuthority: i.Authority},
		ClaimMappings: ClaimMappings{Username: PrefixedClaimOrExpression{Claim: "sub", Prefix: new("")}, Groups: PrefixedClaimOrExpression{Claim: "groups", Prefix: new("o:")}},
	}}}
}

// believing knows tokens by a configuration; all issuers that answer have answered.
func believing(t testing.TB, c *Configuration) *Tokens {
	t.Helper()
	tokens, err := New(Options{Configuration: c, Audiences: []string{api}})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range tokens.current.Load().issuers {
		_ = i.refresh(t.Context())
		i.unknown = rate.NewLimiter(rate.Inf, 1) // tests do not wait
	}
	return tokens
}

// refused makes sure that a token is believed to be a wrong proof.
func refused(t *testing.T, tokens *Tokens, what, token string) {
	t.Helper()
	if h, err := tokens.Holder(t.Context(), token, nil); !errors.Is(err, auth.ErrUnauthorized) {
		t.Errorf("%s: %+v, %v", what, h, err)
	}
}

func TestATokenOfAnIssuerIsBelieved(t *testing.T) {
	i := oidctest.Start(t)
	tokens := believing(t, configuration(i))
	token := i.Token(t, map[string]any{"groups": []string{"dev", "ops"}, "jti": "7", "aud": []string{"else", "millrace"}})
	for range 2 { // the second time it is remembered
		h, err := tokens.Holder(t.Context(), token, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(h.User.Name, h.User.Groups, h.User.Extra, h.Audiences)
		if want := "alice[o:dev o:ops] map[authentication.kubernetes.io/credential-id:[JTI=7]] [https://api.example.com]"; got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	if _, err := tokens.Holder(t.Context(), token, []string{"vault"}); !errors.Is(err, auth.ErrUnknownToken) {
		t.Errorf("the token is good for others than the API server: %v", err)
	}
	if h, err := tokens.Holder(t.Context(), token, []string{"vault", api}); err != nil || !slices.Equal(h.Audiences, []string{api}) {
		t.Errorf("%+v, %v", h, err)
	}
	if n := i.Asked.Load(); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
}

func TestEveryAlgorithmThatIsAllowedIsBelieved(t *testing.T) {
	i := oidctest.Start(t)
	var keys []oidctest.Key
	for _, algorithm := range Algorithms {
		keys = append(keys, oidctest.NewKey(t, algorithm, algorithm))
	}
	i.Use(keys...)
	tokens := believing(t, configuration(i))
	few := believing(t, configuration(i))
	for _, one := range few.current.Load().issuers {
		one.algorithms = []string{"RS256"}
	}
	for _, k := range keys {
		token := k.Sign(t, map[string]any{"iss": i.URL, "exp": time.Now().Add(time.Hour).Unix(), "aud": "millrace", "sub": "alice"}, nil)
		if _, err := tokens.Holder(t.Context(), token, nil); err != nil {
			t.Errorf("%s: %v", k.Algorithm, err)
		}
		if _, err := few.Holder(t.Context(), token, nil); (err == nil) != (k.Algorithm == "RS256") {
			t.Errorf("%s where only RS256 is allowed: %v", k.Algorithm, err)
		}
	}
}

func TestTokensThatAreNotToBeBelieved(t *testing.T) {
	i, other := oidctest.Start(t), oidctest.Start(t)
	tokens := believing(t, configuration(i))
	now := time.Now()
	good := map[string]any{"iss": i.URL, "exp": now.Add(time.Hour).Unix(), "aud": "millrace", "sub": "alice"}
	with := func(more map[string]any) map[string]any {
		all := maps.Clone(good)
		maps.Copy(all, more)
		return all
	}
	without := func(name string) map[string]any {
		all := maps.Clone(good)
		delete(all, name)
		return all
	}
	key := i.Key()
	if _, err := tokens.Holder(t.Context(), key.Sign(t, good, nil), nil); err != nil {
		t.Fatal(err)
	}
	for what, claims := range map[string]map[string]any{
		"for another audience":    with(map[string]any{"aud": "vault"}),
		"for no audience":         without("aud"),
		"for a list without ours": with(map[string]any{"aud": []string{"a", "b"}}),
		"for a strange audience":  with(map[string]any{"aud": 7}),
		"expired":                 with(map[string]any{"exp": now.Add(-time.Second).Unix()}),
		"without an end":          without("exp"),
		"with a strange end":      with(map[string]any{"exp": "tomorrow"}),
		"not yet good":            with(map[string]any{"nbf": now.Add(2 * time.Minute).Unix()}),
		"without a subject":       without("sub"),
		"with an empty subject":   with(map[string]any{"sub": ""}),
		"with a list as subject":  with(map[string]any{"sub": []string{"alice"}}),
		"with strange groups":     with(map[string]any{"groups": map[string]string{"a": "b"}}),
	} {
		refused(t, tokens, what, key.Sign(t, claims, nil))
	}
	if _, err := tokens.Holder(t.Context(), key.Sign(t, with(map[string]any{"nbf": now.Add(30 * time.Second).Unix(), "iat": 1.5e9}), nil), nil); err != nil {
		t.Errorf("an issuer whose clock is half a minute ahead: %v", err)
	}
	for what, token := range map[string]string{
		"of somebody else":                 other.Token(t, nil),
		"that names a part of the issuer":  key.Sign(t, with(map[string]any{"iss": i.URL + "/"}), nil),
		"that names the issuer otherwise":  key.Sign(t, with(map[string]any{"iss": nil, "ISS": i.URL}), nil),
		"that is none":                     "abc",
		"in four parts":                    key.Sign(t, good, nil) + ".x",
		"of nothing":                       "..",
		"of null":                          "bnVsbA.bnVsbA.",
		"that is huge":                     key.Sign(t, with(map[string]any{"sub": strings.Repeat("x", longestToken)}), nil),
		"with an extension that is vital":  key.Sign(t, good, map[string]any{"crit": []string{"b64"}, "b64": false}),
		"with a name of a key of no text":  key.Sign(t, good, map[string]any{"kid": 7}),
		"of a thousand nested lists":       "e30." + base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("[", 20000))) + ".",
		"whose parts are no base64 at all": "***.***.***",
	} {
		if h, err := tokens.Holder(t.Context(), token, nil); !errors.Is(err, auth.ErrUnknownToken) {
			t.Errorf("a token %s: %+v, %v", what, h, err)
		}
	}
}

func TestTricksWithKeysAreOfNoUse(t *testing.T) {
	i := oidctest.Start(t)
	tokens := believing(t, configuration(i))
	claims := jwt.MapClaims{"iss": i.URL, "exp": time.Now().Add(time.Hour).Unix(), "aud": "millrace", "sub": "alice"}
	key, own := i.Key(), oidctest.NewKey(t, i.Key().ID, "RS256")

	none, err := jwt.NewWithClaims(jwt.SigningMethodNone, claims).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	refused(t, tokens, "alg none", none)
	for _, name := range []string{"none", "None", "nOnE", ""} {
		token := key.Sign(t, claims, map[string]any{"alg": name})
		refused(t, tokens, "alg "+name, token)
		refused(t, tokens, "no signature", token[:strings.LastIndexByte(token, '.')+1])
	}

	der, err := x509.MarshalPKIXPublicKey(key.Private.Public())
	if err != nil {
		t.Fatal(err)
	}
	for what, secret := range map[string][]byte{"DER": der, "PEM": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})} {
		symmetric := jwt.NewWithClaims(jwt.SigningMethodHS256, claims)
		symmetric.Header["kid"] = key.ID
		text, err := symmetric.SignedString(secret)
		if err != nil {
			t.Fatal(err)
		}
		refused(t, tokens, "HS256 with the public key in "+what, text)
		parts := strings.Split(text, ".")
		header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","kid":"` + key.ID + `"}`))
		refused(t, tokens, "HS256 that says it is RS256", header+"."+parts[1]+"."+parts[2])
	}

	for _, id := range []any{own.ID, "", "../../dev/null", "' or 1=1", strings.Repeat("k", 10000)} {
		refused(t, tokens, fmt.Sprintf("another key named %.20v", id), own.Sign(t, claims, map[string]any{"kid": id}))
	}
	refused(t, tokens, "a key of its own", own.Sign(t, claims, map[string]any{"jwk": own.Web(), "jku": "https://evil.example.com/keys", "x5c": []string{"MII"}}))

	good := key.Sign(t, claims, nil)
	parts := strings.Split(good, ".")
	other := base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"` + i.URL + `","exp":9999999999,"aud":"millrace","sub":"admin"}`))
	refused(t, tokens, "other claims under the same signature", parts[0]+"."+other+"."+parts[2])
	if _, err := tokens.Holder(t.Context(), key.Sign(t, claims, map[string]any{"kid": ""}), nil); err != nil {
		t.Errorf("a token that names no key: %v", err)
	}
}

func TestRotatedKeysAreFoundAndWithdrawnOnesForgotten(t *testing.T) {
	i := oidctest.Start(t)
	tokens := believing(t, configuration(i))
	before := i.Token(t, nil)
	if _, err := tokens.Holder(t.Context(), before, nil); err != nil {
		t.Fatal(err)
	}
	i.Rotate(t)
	if _, err := tokens.Holder(t.Context(), i.Token(t, nil), nil); err != nil {
		t.Errorf("a token of the next key: %v", err)
	}
	refused(t, tokens, "a token of a key that is withdrawn", before)
}

func TestAnOutageRefusesNobodyWhoIsKnown(t *testing.T) {
	i := oidctest.Start(t)
	i.Down(true)
	tokens := believing(t, configuration(i))
	token := i.Token(t, nil)
	_, err := tokens.Holder(t.Context(), token, nil)
	if err == nil || errors.Is(err, auth.ErrUnauthorized) || errors.Is(err, auth.ErrUnknownToken) || !strings.Contains(err.Error(), "down for repairs") {
		t.Errorf("before the first answer: %v", err)
	}
	i.Down(false)
	one := tokens.current.Load().issuers[i.URL]
	if err := one.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	i.Down(true)
	if err := one.refresh(t.Context()); err == nil {
		t.Error("an issuer that is down was reached")
	}
	if _, err := tokens.Holder(t.Context(), token, nil); err != nil {
		t.Errorf("during the outage: %v", err)
	}
	unknown := oidctest.NewKey(t, "next", "RS256").Sign(t, map[string]any{"iss": i.URL, "exp": time.Now().Add(time.Hour).Unix(), "aud": "millrace", "sub": "alice"}, nil)
	if _, err := tokens.Holder(t.Context(), unknown, nil); err == nil || errors.Is(err, auth.ErrUnauthorized) {
		t.Errorf("a key that cannot be looked for: %v", err)
	}
}

func TestManyUnknownKeysAreFewQuestions(t *testing.T) {
	i := oidctest.Start(t)
	tokens := believing(t, configuration(i))
	tokens.current.Load().issuers[i.URL].unknown = rate.NewLimiter(rate.Every(time.Hour), askBurst)
	key := oidctest.NewKey(t, "made-up", "ES256")
	for n := range 50 {
		refused(t, tokens, "a made-up key", key.Sign(t, map[string]any{"iss": i.URL, "exp": time.Now().Add(time.Hour).Unix(), "aud": "millrace", "sub": fmt.Sprint(n)}, nil))
	}
	if n := i.Asked.Load(); n > 1+askBurst {
		t.Errorf("the keys were fetched %d times", n)
	}
}

func TestAnIssuerThatIsNotWhoItSaysIsNotBelieved(t *testing.T) {
	for what, say := range map[string]struct{ name, keys string }{
		"another name":        {"https://evil.example.com", ""},
		"no keys":             {"", "-"},
		"keys without a lock": {"", "http://127.0.0.1:1/keys"},
	} {
		i := oidctest.Start(t)
		name, keys := i.URL, i.URL+"/keys"
		if say.name != "" {
			name = say.name
		}
		if say.keys != "" {
			keys = strings.TrimPrefix(say.keys, "-")
		}
		i.Say(name, keys)
		tokens := believing(t, configuration(i))
		if _, err := tokens.Holder(t.Context(), i.Token(t, nil), nil); !errors.Is(err, errUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	i := oidctest.Start(t)
	c := configuration(i)
	c.JWT[0].Issuer.CertificateAuthority = ""
	if _, err := believing(t, c).Holder(t.Context(), i.Token(t, nil), nil); !errors.Is(err, errUnavailable) {
		t.Errorf("a certificate of an authority that nobody knows: %v", err)
	}
}

func TestDiscoveryMayBeElsewhere(t *testing.T) {
	i := oidctest.Start(t)
	const name = "https://issuer.example.com"
	i.Say(name, i.URL+"/keys")
	c := configuration(i)
	c.JWT[0].Issuer.URL, c.JWT[0].Issuer.DiscoveryURL = name, i.URL+"/elsewhere"
	if _, err := believing(t, c).Holder(t.Context(), i.Token(t, map[string]any{"iss": name}), nil); err != nil {
		t.Error(err)
	}
}

func TestDistributedGroupsAreFetched(t *testing.T) {
	i := oidctest.Start(t)
	tokens := believing(t, configuration(i))
	asked := 0
	ask := func(claims map[string]any) ([]string, error) {
		asked++
		claims["jti"] = fmt.Sprint(asked) // another token each time: one that was believed is remembered
		h, err := tokens.Holder(t.Context(), i.Token(t, claims), nil)
		return h.User.Groups, err
	}
	from := func(source map[string]any) map[string]any {
		return map[string]any{"_claim_names": map[string]string{"groups": "a"}, "_claim_sources": map[string]any{"a": source}}
	}
	i.Claims.Store(new(i.Token(t, map[string]any{"groups": "dev"})))
	if groups, err := ask(from(map[string]any{"endpoint": i.URL + "/claims", "access_token": "abc"})); err != nil || !slices.Equal(groups, []string{"o:dev"}) {
		t.Errorf("%v, %v", groups, err)
	}
	plain := from(map[string]any{"endpoint": i.URL + "/nowhere"})
	plain["groups"] = "ops"
	if groups, err := ask(plain); err != nil || !slices.Equal(groups, []string{"o:ops"}) {
		t.Errorf("a claim that is there is not fetched: %v, %v", groups, err)
	}
	if groups, err := ask(from(map[string]any{"JWT": "aggregated"})); err != nil || groups != nil {
		t.Errorf("aggregated: %v, %v", groups, err)
	}
	stranger := oidctest.Start(t)
	stranger.Down(true)
	for what, answer := range map[string]string{
		"no token":             "abc",
		"another key":          oidctest.NewKey(t, i.Key().ID, "RS256").Sign(t, map[string]any{"iss": i.URL, "exp": time.Now().Add(time.Hour).Unix(), "aud": "millrace", "groups": "dev"}, nil),
		"another audience":     i.Token(t, map[string]any{"groups": "dev", "aud": "vault"}),
		"expired":              i.Token(t, map[string]any{"groups": "dev", "exp": 1}),
		"without groups":       i.Token(t, nil),
		"somebody who is away": stranger.Token(t, map[string]any{"groups": "dev"}),
	} {
		i.Claims.Store(&answer)
		if groups, err := ask(from(map[string]any{"endpoint": i.URL + "/claims"})); err == nil {
			t.Errorf("%s: %v", what, groups)
		}
	}
	for what, claims := range map[string]map[string]any{
		"no sources":      {"_claim_names": map[string]string{"groups": "a"}},
		"another source":  {"_claim_names": map[string]string{"groups": "b"}, "_claim_sources": map[string]any{"a": map[string]string{}}},
		"strange names":   {"_claim_names": 7},
		"without a lock":  from(map[string]any{"endpoint": "http://127.0.0.1:1/claims"}),
		"a path":          from(map[string]any{"endpoint": "/etc/passwd"}),
		"a file":          from(map[string]any{"endpoint": "file:///etc/passwd"}),
		"strange sources": {"_claim_names": map[string]string{"groups": "a"}, "_claim_sources": "x"},
	} {
		if groups, err := ask(claims); err == nil {
			t.Errorf("%s: %v", what, groups)
		}
	}
}

func TestAChangedFileIsUsedWhenItIsGood(t *testing.T) {
	a, b := oidctest.Start(t), oidctest.Start(t)
	path := filepath.Join(t.TempDir(), "config")
	write := func(c *Configuration) {
		t.Helper()
		c.APIVersion, c.Kind = "apiserver.config.k8s.io/v1", "AuthenticationConfiguration"
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first := configuration(a)
	write(first)
	tokens, err := New(Options{File: path, Audiences: []string{api}})
	if err != nil {
		t.Fatal(err)
	}
	_ = tokens.current.Load().answer(t.Context())
	known := func(i *oidctest.Issuer) bool {
		_, err := tokens.Holder(t.Context(), i.Token(t, nil), nil)
		return err == nil
	}
	both := configuration(a)
	both.JWT = append(both.JWT, configuration(b).JWT...)

	b.Down(true)
	write(both)
	if tokens.look(t.Context()) || !known(a) || known(b) {
		t.Error("a configuration is used whose issuer does not answer")
	}
	b.Down(false)
	before := tokens.current.Load().issuers[a.URL]
	if !tokens.look(t.Context()) || !known(a) || !known(b) {
		t.Error("the changed configuration is not used")
	}
	if tokens.current.Load().issuers[a.URL] != before {
		t.Error("an issuer that did not change has lost its keys")
	}
	wrong := configuration(a)
	wrong.JWT[0].Issuer.Audiences = nil
	write(wrong)
	anonymous := configuration(a)
	anonymous.Anonymous = &Anonymous{Enabled: true}
	for range 2 {
		if tokens.look(t.Context()) || !known(b) {
			t.Error("a wrong configuration is used")
		}
	}
	write(anonymous)
	if tokens.look(t.Context()) {
		t.Error("who may come without credentials has changed")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if tokens.look(t.Context()) || !known(b) {
		t.Error("without its file the configuration is forgotten")
	}
	write(configuration(b))
	if !tokens.look(t.Context()) || known(a) || !known(b) {
		t.Error("an issuer that was removed is believed")
	}
}

func TestRunFetchesKeysAndEnds(t *testing.T) {
	i := oidctest.Start(t)
	tokens, err := New(Options{Configuration: configuration(i)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- tokens.Run(ctx) }()
	if err := tokens.current.Load().issuers[i.URL].refresh(ctx); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func BenchmarkRememberedToken(b *testing.B) {
	i := oidctest.Start(b)
	tokens := believing(b, configuration(i))
	token := i.Token(b, map[string]any{"groups": []string{"dev", "ops"}})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tokens.Holder(b.Context(), token, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzToken(f *testing.F) {
	i := oidctest.Start(f)
	tokens := believing(f, configuration(i))
	good := i.Token(f, nil)
	f.Add(good)
	f.Add("e30.e30.")
	f.Add("eyJhbGciOiJub25lIn0.eyJpc3MiOiJhIn0.")
	f.Fuzz(func(t *testing.T, token string) {
		h, err := tokens.Holder(t.Context(), token, nil)
		if err == nil && token != good {
			// The signature covers the first two parts; the third may be written in more than one way.
			if !strings.HasPrefix(token, good[:strings.LastIndexByte(good, '.')]) {
				t.Errorf("believed: %q as %+v", token, h)
			}
		}
	})
}

func FuzzKeys(f *testing.F) {
	text, err := json.Marshal(map[string]any{"keys": []any{oidctest.NewKey(f, "a", "RS256").Web(), oidctest.NewKey(f, "b", "ES384").Web()}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	token, err := parseToken(oidctest.NewKey(f, "a", "RS256").Sign(f, map[string]any{"iss": "a"}, nil))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if set, err := parseKeys(text); err == nil && set.verifies(token) {
			t.Errorf("%s verifies a token of another key", text)
		}
	})
}
