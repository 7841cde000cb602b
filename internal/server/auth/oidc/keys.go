package oidc

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// Algorithms are all that tokens may be signed with: those by which only the holder of a private key can sign.
var Algorithms = []string{"ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"}

// keySet are the public keys of an issuer. It never changes.
type keySet struct {
	text []byte // what they were read from
	keys []publicKey
}

type publicKey struct {
	id        string
	algorithm string // the only one that the key is for; empty if its issuer does not say
	key       crypto.PublicKey
}

// webKey is a key as RFC 7517 has it.
type webKey struct {
	Type      string `json:"kty"`
	ID        string `json:"kid"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
	N         string `json:"n"`
	E         string `json:"e"`
	Curve     string `json:"crv"`
	X         string `json:"x"`
	Y         string `json:"y"`
}

// parseKeys reads a set of keys. Those that cannot verify signatures are left out: of other kinds, for other uses, or
// damaged.
func parseKeys(text []byte) (*keySet, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("oidc: failed to decode keys: %w", err)
	}
	out := &keySet{text: text}
	for _, one := range set.Keys {
		var w webKey
		if json.Unmarshal(one, &w) != nil || w.Use != "" && w.Use != "sig" {
			continue
		}
		if key, err := w.public(); err == nil {
			out.keys = append(out.keys, publicKey{w.ID, w.Algorithm, key})
		}
	}
	if len(out.keys) == 0 && len(set.Keys) > 0 {
		return nil, fmt.Errorf("oidc: none of %d keys can be used", len(set.Keys))
	}
	return out, nil
}

var errKind = errors.New("no public key of a kind that is known")

func (w *webKey) public() (crypto.PublicKey, error) {
	switch w.Type {
	case "RSA":
		return w.rsa()
	case "EC":
		return w.ec()
	}
	return nil, errKind
}

const (
	// smallestModulus is the least that Go verifies with, and largestModulus keeps a check from taking long.
	smallestModulus, largestModulus = 1024, 16384
	largestExponent                 = 1<<31 - 1
)

func (w *webKey) rsa() (*rsa.PublicKey, error) {
	n, err := number(w.N)
	if err != nil {
		return nil, err
	}
	e, err := number(w.E)
	if err != nil {
		return nil, err
	}
	if bits := n.BitLen(); bits < smallestModulus || bits > largestModulus || !e.IsInt64() || e.Int64() < 2 || e.Int64() > largestExponent {
		return nil, errKind
	}
	return &rsa.PublicKey{N: n, E: int(e.Int64())}, nil
}

var curves = map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}

func (w *webKey) ec() (*ecdsa.PublicKey, error) {
	curve, ok := curves[w.Curve]
	if !ok {
		return nil, errKind
	}
	x, err := number(w.X)
	if err != nil {
		return nil, err
	}
	y, err := number(w.Y)
	if err != nil {
		return nil, err
	}
	size := (curve.Params().BitSize + 7) / 8
	if x.BitLen() > size*8 || y.BitLen() > size*8 {
		return nil, errKind
	}
	point := make([]byte, 1+2*size)
	point[0] = 4 // both coordinates are there
	x.FillBytes(point[1 : 1+size])
	y.FillBytes(point[1+size:])
	return ecdsa.ParseUncompressedPublicKey(curve, point)
}

// number reads an unsigned number. Some issuers pad it, which RFC 7518 forbids.
func number(text string) (*big.Int, error) {
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return nil, err
	}
	if len(b) == 0 {
		return nil, errKind
	}
	return new(big.Int).SetBytes(b), nil
}

// verifies tells whether a key of the set has signed a token. A token that names a key is held against keys of that
// name only.
func (s *keySet) verifies(t *token) bool {
	return slices.ContainsFunc(s.keys, func(k publicKey) bool {
		return (t.keyID == "" || t.keyID == k.id) && (k.algorithm == "" || k.algorithm == t.algorithm) && k.fits(t.algorithm) &&
			jwt.GetSigningMethod(t.algorithm).Verify(t.signed, t.signature, k.key) == nil
	})
}

// fits tells whether an algorithm is for this kind of key.
func (k publicKey) fits(algorithm string) bool {
	switch key := k.key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS")
	case *ecdsa.PublicKey:
		return curveOf[algorithm] == key.Curve
	}
	return false
}

var curveOf = map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()}
