package pki

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
)

// ReadSigner reads a private key, RSA or ECDSA, with which tokens are signed.
func ReadSigner(path string) (crypto.Signer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return decodeSigner(path, text)
}

func decodeSigner(path string, text []byte) (crypto.Signer, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "EC PARAMETERS" { // openssl writes them before the key
			continue
		}
		key, err := parsePrivate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return key, nil
	}
	return nil, fmt.Errorf("%s holds no PEM key", path)
}

// ReadPublicKeys reads all public keys of a file. Certificates and private keys stand for theirs.
func ReadPublicKeys(path string) ([]crypto.PublicKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []crypto.PublicKey
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if key := parsePublic(block.Bytes); key != nil {
			all = append(all, key)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s does not contain any valid RSA or ECDSA public keys", path)
	}
	return all, nil
}

// parsePrivate reads a private key in any of its usual forms.
func parsePrivate(der []byte) (crypto.Signer, error) {
	if key, err := x509.ParseECPrivateKey(der); err == nil {
		return key, nil
	}
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a %T cannot sign", key)
	}
	return signer, nil
}

// parsePublic reads a public key in any of its usual forms; nil if it is none.
func parsePublic(der []byte) crypto.PublicKey {
	if key, err := x509.ParsePKIXPublicKey(der); err == nil {
		return key
	}
	if key, err := x509.ParsePKCS1PublicKey(der); err == nil {
		return key
	}
	if cert, err := x509.ParseCertificate(der); err == nil {
		return cert.PublicKey
	}
	if key, err := parsePrivate(der); err == nil {
		return key.Public()
	}
	return nil
}
