package pki

import (
	"crypto"
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
	"sync"

	"github.com/millrace/millrace/internal/durable"
)

// storage keeps pairs by name. If a pair does not exist, the error is fs.ErrNotExist.
type storage interface {
	read(name string) (Pair, error)
	write(name string, p Pair) error
	// signing returns the key that signs tokens, and makes it if it does not exist.
	signing() (crypto.Signer, error)
}

func openStorage(path string) (storage, error) {
	if path == "" {
		return &memory{pairs: map[string]Pair{}}, nil
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of certificates: %w", err)
	}
	return directory(path), nil
}

// memory is a storage that ends with the process.
type memory struct {
	mu    sync.Mutex // guards pairs
	pairs map[string]Pair
	key   crypto.Signer
}

func (m *memory) read(name string) (Pair, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.pairs[name]
	if !ok {
		return Pair{}, fs.ErrNotExist
	}
	return p, nil
}

func (m *memory) write(name string, p Pair) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pairs[name] = p
	return nil
}

func (m *memory) signing() (_ crypto.Signer, err error) {
	if m.key == nil {
		m.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	return m.key, err
}

// directory is a storage of files: NAME.crt and NAME.key.
type directory string

func (d directory) path(file string) string { return filepath.Join(string(d), file) }

func (d directory) read(name string) (Pair, error) {
	certPath, keyPath := d.path(name+".crt"), d.path(name+".key")
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

// write writes the key first: a key without a certificate is not used, and a key with an older certificate does not
// match.
func (d directory) write(name string, p Pair) error {
	if err := durable.WriteFile(d.path(name+".key"), p.KeyPEM, 0o600); err != nil {
		return err
	}
	return durable.WriteFile(d.path(name+".crt"), p.CertPEM, 0o644)
}

func (d directory) signing() (crypto.Signer, error) {
	path := d.path("sa.key")
	text, err := os.ReadFile(path)
	if err == nil {
		return decodeSigner(path, text)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if text, err = encodeKey(key); err != nil {
		return nil, err
	}
	return key, durable.WriteFile(path, text, 0o600)
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// decodeKey reads the key of a certificate.
func decodeKey(path string, text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM key: delete it to have a new one made", path)
	}
	private, err := parsePrivate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	key, ok := private.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s holds a %T, not an ECDSA key", path, private)
	}
	return key, nil
}
