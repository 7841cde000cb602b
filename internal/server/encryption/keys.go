package encryption

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"

	"golang.org/x/crypto/nacl/secretbox"
)

// sealer encrypts and decrypts with one key. path is the key of the store.
type sealer interface {
	seal(path string, plain []byte) ([]byte, error)
	open(path string, sealed []byte) ([]byte, error)
}

var errWrong = errors.New("the value was not encrypted with this key, or has been changed")

// cbc is AES in CBC mode. It does not detect every modification of a value.
type cbc struct{ cipher.Block }

func newCBC(key []byte) (sealer, error) {
	block, err := aes.NewCipher(key)
	return cbc{block}, err
}

func (c cbc) seal(_ string, plain []byte) ([]byte, error) {
	padding := aes.BlockSize - len(plain)%aes.BlockSize
	out := make([]byte, aes.BlockSize+len(plain)+padding)
	iv, body := out[:aes.BlockSize], out[aes.BlockSize:]
	if _, err := rand.Read(iv); err != nil {
		return nil, err
	}
	for i := copy(body, plain); i < len(body); i++ {
		body[i] = byte(padding)
	}
	cipher.NewCBCEncrypter(c.Block, iv).CryptBlocks(body, body)
	return out, nil
}

func (c cbc) open(_ string, sealed []byte) ([]byte, error) {
	if len(sealed) < 2*aes.BlockSize || len(sealed)%aes.BlockSize != 0 {
		return nil, errWrong
	}
	body := make([]byte, len(sealed)-aes.BlockSize)
	cipher.NewCBCDecrypter(c.Block, sealed[:aes.BlockSize]).CryptBlocks(body, sealed[aes.BlockSize:])
	n := int(body[len(body)-1])
	if n == 0 || n > aes.BlockSize {
		return nil, errWrong
	}
	padding := body[len(body)-n:]
	if !bytes.Equal(padding, bytes.Repeat([]byte{byte(n)}, n)) {
		return nil, errWrong
	}
	return body[:len(body)-n], nil
}

// gcm is AES in GCM mode, which authenticates the value together with its path.
type gcm struct{ cipher.AEAD }

func newGCM(key []byte) (sealer, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return gcm{aead}, err
}

func (g gcm) seal(path string, plain []byte) ([]byte, error) {
	return g.sealAfter(nil, path, plain)
}

// sealAfter appends the encrypted value to head.
func (g gcm) sealAfter(head []byte, path string, plain []byte) ([]byte, error) {
	out := make([]byte, len(head)+g.NonceSize(), len(head)+g.NonceSize()+len(plain)+g.Overhead())
	nonce := out[copy(out, head):]
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	return g.Seal(out, nonce, plain, []byte(path)), nil
}

func (g gcm) open(path string, sealed []byte) ([]byte, error) {
	n := g.NonceSize()
	if len(sealed) < n {
		return nil, errWrong
	}
	plain, err := g.Open(nil, sealed[:n], sealed[n:], []byte(path))
	if err != nil {
		return nil, errWrong
	}
	return plain, nil
}

// box is NaCl's secretbox: XSalsa20 and Poly1305.
type box [32]byte

const boxNonce = 24

func (b *box) seal(_ string, plain []byte) ([]byte, error) {
	var nonce [boxNonce]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return nil, err
	}
	out := make([]byte, boxNonce, boxNonce+len(plain)+secretbox.Overhead)
	copy(out, nonce[:])
	return secretbox.Seal(out, plain, &nonce, (*[32]byte)(b)), nil
}

func (b *box) open(_ string, sealed []byte) ([]byte, error) {
	if len(sealed) < boxNonce+secretbox.Overhead {
		return nil, errWrong
	}
	plain, ok := secretbox.Open(nil, sealed[boxNonce:], (*[boxNonce]byte)(sealed), (*[32]byte)(b))
	if !ok {
		return nil, errWrong
	}
	return plain, nil
}

// newBox needs a key of 32 bytes.
func newBox(key []byte) (sealer, error) {
	if len(key) != 32 {
		return nil, fmt.Errorf("a key of %d bytes", len(key))
	}
	b := box(key)
	return &b, nil
}
