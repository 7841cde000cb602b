package auth

import (
	"context"
	"crypto/sha256"
	"encoding/csv"
	"fmt"
	"os"
	"strings"
)

// TokenFile holds static tokens, in the form of kube-apiserver's --token-auth-file: token,user,uid,"group1,group2".
type TokenFile struct {
	// Tokens are kept by their hash, so that looking one up takes no longer the more of it is guessed right.
	users map[[sha256.Size]byte]User
}

// ReadTokenFile reads a file of tokens.
func ReadTokenFile(path string) (*TokenFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read token file: %w", err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.FieldsPerRecord, r.Comment, r.TrimLeadingSpace = -1, '#', true
	lines, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read token file %s: %w", path, err)
	}
	t := &TokenFile{users: map[[sha256.Size]byte]User{}}
	for i, l := range lines {
		if len(l) < 3 || l[0] == "" || l[1] == "" {
			return nil, fmt.Errorf("read token file %s: line %d: token, user name and user uid are needed", path, i+1)
		}
		u := User{Name: l[1], UID: l[2]}
		if len(l) > 3 && l[3] != "" {
			u.Groups = strings.Split(l[3], ",")
		}
		t.users[sha256.Sum256([]byte(l[0]))] = u
	}
	return t, nil
}

// Holder implements Tokens. Static tokens say nothing of audiences; ForServer limits them to the API server's.
func (t *TokenFile) Holder(_ context.Context, token string, _ []string) (Holder, error) {
	u, ok := t.users[sha256.Sum256([]byte(token))]
	if !ok {
		return Holder{}, ErrUnknownToken
	}
	return Holder{User: u}, nil
}
