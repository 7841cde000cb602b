package certificates

import (
	"crypto"
	"crypto/tls"
	"fmt"
)

// Files returns a CA from files. They are read for each certificate, so the CA may be replaced at any time.
func Files(certificate, key string) func() (Authority, error) {
	return func() (Authority, error) {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return Authority{}, fmt.Errorf("read the authority that signs: %w", err)
		}
		signer, ok := pair.PrivateKey.(crypto.Signer)
		if !ok {
			return Authority{}, ErrNoKey
		}
		return Authority{Certificate: pair.Leaf, Key: signer}, nil
	}
}
