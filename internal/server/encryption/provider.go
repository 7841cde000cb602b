package encryption

import (
	"bytes"
	"fmt"
)

// provider writes values that begin with its mark, and reads such values.
type provider interface {
	// mark is the prefix of the values; empty means values that are not encrypted.
	mark() string
	to(path string, plain []byte) ([]byte, error)
	// from decrypts a value. stale says that the value should be written again.
	from(path string, body []byte) (plain []byte, stale bool, err error)
}

// encrypted is the prefix of all encrypted values.
const encrypted = "k8s:enc:"

// keyed is a provider with one or more keys, of which the first encrypts.
type keyed struct {
	prefix string
	names  []string // with a colon at the end
	keys   []sealer
}

func newKeyed(kind string, c *keysConfig, make func([]byte) (sealer, error), lengths ...int) (*keyed, error) {
	names, secrets, err := c.keys(lengths...)
	if err != nil {
		return nil, fmt.Errorf("%s.%w", kind, err)
	}
	k := &keyed{prefix: encrypted + kind + ":v1:"}
	for i, secret := range secrets {
		s, err := make(secret)
		if err != nil {
			return nil, fmt.Errorf("%s.keys[%d]: %w", kind, i, err)
		}
		k.names, k.keys = append(k.names, names[i]+":"), append(k.keys, s)
	}
	return k, nil
}

func (k *keyed) mark() string { return k.prefix }

func (k *keyed) to(path string, plain []byte) ([]byte, error) {
	sealed, err := k.keys[0].seal(path, plain)
	if err != nil {
		return nil, err
	}
	return append([]byte(k.prefix+k.names[0]), sealed...), nil
}

func (k *keyed) from(path string, body []byte) (plain []byte, stale bool, err error) {
	err = fmt.Errorf("no key of the configuration has the name in the value (prefix %q)", k.prefix)
	for i, name := range k.names { // several keys may have the same name
		sealed, ok := bytes.CutPrefix(body, []byte(name))
		if !ok {
			continue
		}
		if plain, err = k.keys[i].open(path, sealed); err == nil {
			return plain, i > 0, nil
		}
	}
	return nil, false, err
}

// identity does not encrypt.
type identity struct{}

func (identity) mark() string                              { return "" }
func (identity) to(_ string, plain []byte) ([]byte, error) { return plain, nil }
func (identity) from(_ string, body []byte) ([]byte, bool, error) {
	if bytes.HasPrefix(body, []byte(encrypted)) {
		return nil, false, fmt.Errorf("identity transformer tried to read encrypted data")
	}
	return body, false, nil
}

// chain are the providers of a resource.
type chain []provider

func (c chain) to(path string, plain []byte) ([]byte, error) { return c[0].to(path, plain) }

func (c chain) from(path string, value []byte) (plain []byte, stale bool, err error) {
	err = fmt.Errorf("no matching prefix found")
	for i, p := range c {
		body, ok := bytes.CutPrefix(value, []byte(p.mark()))
		if !ok {
			continue
		}
		if p.mark() == "" && bytes.HasPrefix(value, []byte(encrypted)) {
			continue
		}
		if plain, stale, err = p.from(path, body); err == nil {
			return plain, stale || i > 0, nil
		}
	}
	return nil, false, err
}
