package credentials

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/millrace/millrace/internal/durable"
)

// File returns the path of the certificate and key file, or "".
func (r *Rotating) File() string {
	if r.options.Directory == "" {
		return ""
	}
	return filepath.Join(r.options.Directory, r.options.Name+"-current.pem")
}

// read reads the file. Without a file there is no certificate.
func (r *Rotating) read() (*tls.Certificate, error) {
	if r.options.Directory == "" {
		return nil, nil
	}
	text, err := os.ReadFile(r.File())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.File(), err)
	}
	return &pair, nil
}

// write replaces the file atomically.
func (r *Rotating) write(text []byte) error {
	if r.options.Directory == "" {
		return nil
	}
	if err := os.MkdirAll(r.options.Directory, 0o755); err != nil {
		return fmt.Errorf("store the certificate: %w", err)
	}
	if err := durable.WriteFile(r.File(), text, 0o600); err != nil {
		return fmt.Errorf("store the certificate: %w", err)
	}
	return nil
}
