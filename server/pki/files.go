package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func decodeKey(path string, text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM key: delete it to have a new one made", path)
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

func readPair(folder, name string) (Pair, error) {
	certPath, keyPath := filepath.Join(folder, name+".crt"), filepath.Join(folder, name+".key")
	certPEM, err := os.ReadFile(certPath)
	if err != nil {
		return Pair{}, err
	}
	keyPEM, err := os.ReadFile(keyPath)
	if err != nil {
		return Pair{}, err
	}
	block, _ := pem.Decode(certPEM)
	if block == nil {
		return Pair{}, fmt.Errorf("%s holds no PEM certificate: delete it to have a new one made", certPath)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return Pair{}, fmt.Errorf("%s: %w", certPath, err)
	}
	key, err := decodeKey(keyPath, keyPEM)
	return Pair{Certificate: cert, Key: key, CertPEM: certPEM, KeyPEM: keyPEM}, err
}

// write replaces a file as a whole, so that a crash leaves the old one or the new one.
func write(path string, text []byte, mode fs.FileMode) error {
	next := path + ".new"
	if err := os.WriteFile(next, text, mode); err != nil {
		return err
	}
	return os.Rename(next, path)
}

func signingKey(folder string) (*ecdsa.PrivateKey, error) {
	path := filepath.Join(folder, "sa.key")
	if folder != "" {
		text, err := os.ReadFile(path)
		if err == nil {
			return decodeKey(path, text)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil || folder == "" {
		return key, err
	}
	text, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	return key, write(path, text, 0o600)
}
