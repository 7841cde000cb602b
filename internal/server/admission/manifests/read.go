package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/internal/server/resource"
)

// file is a manifest.
type file struct {
	path string
	text []byte
}

// listing reads the manifests that are directly in a directory, in the order of their names.
func listing(directory string) ([]file, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	var out []file
	for _, e := range entries {
		path := filepath.Join(directory, e.Name())
		if !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			continue
		}
		found, err := os.Stat(path) // a link is what it leads to
		if err != nil {
			return nil, err
		}
		if found.IsDir() {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		out = append(out, file{path, text})
	}
	return out, nil
}

// joined is one text for all files. It has Kubernetes' form, so that the hashes in the metrics are the same.
func joined(files []file) []byte {
	out := []byte{} // not nil: no files are a text too
	for _, f := range files {
		if len(f.text) > 0 {
			out = append(append(out, f.text...), 0)
		}
	}
	return out
}

// documents splits a manifest into the JSON texts of its documents.
func (f file) documents() ([]json.RawMessage, error) {
	if filepath.Ext(f.path) == ".json" {
		return jsonDocuments(f.text)
	}
	var out []json.RawMessage
	for _, one := range boundary.Split(string(f.text), -1) {
		text, err := yaml.YAMLToJSONStrict([]byte(one))
		if err != nil {
			return nil, err
		}
		if string(text) != "null" { // a document of comments
			out = append(out, text)
		}
	}
	return out, nil
}

// boundary is between two documents of YAML. Kubernetes' own reader knows none with a comment, and what follows such a
// one would be ignored.
var boundary = regexp.MustCompile(`(?m)^(?:---|\.\.\.)(?:[ \t\r\n]|$)`)

func jsonDocuments(text []byte) (out []json.RawMessage, err error) {
	for in := json.NewDecoder(bytes.NewReader(text)); ; {
		var one json.RawMessage
		if err := in.Decode(&one); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
}

// list is a v1.List, or a list of one kind.
type list struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ListMeta   `json:"metadata"`
	Items           []json.RawMessage `json:"items"`
}

// objects decodes the text of an object or of a list. An item of a list of one kind need not name its kind.
func (s *set) objects(text []byte, said metav1.TypeMeta) ([]resource.Object, error) {
	if err := json.Unmarshal(text, &said); err != nil {
		return nil, err
	}
	if said == (metav1.TypeMeta{APIVersion: "v1", Kind: "List"}) {
		return s.items(text, metav1.TypeMeta{})
	}
	for _, k := range s.kinds {
		item := metav1.TypeMeta{APIVersion: k.GroupVersion().String(), Kind: k.Kind}
		switch said {
		case item:
			o := k.New()
			err := strictly(text, o)
			o.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind())
			return []resource.Object{o}, err
		case metav1.TypeMeta{APIVersion: item.APIVersion, Kind: k.ListKind}:
			return s.items(text, item)
		}
	}
	return nil, fmt.Errorf("the kind %q of %q cannot be in this directory", said.Kind, said.APIVersion)
}

func (s *set) items(text []byte, of metav1.TypeMeta) (out []resource.Object, err error) {
	var l list
	if err := strictly(text, &l); err != nil {
		return nil, err
	}
	for i, item := range l.Items {
		some, err := s.objects(item, of)
		if err != nil {
			return nil, fmt.Errorf("items[%d]: %w", i, err)
		}
		out = append(out, some...)
	}
	return out, nil
}

// strictly decodes a text that must have no unknown fields and none twice.
func strictly(text []byte, into any) error {
	strict, err := strictjson.UnmarshalStrict(text, into)
	if err == nil && len(strict) > 0 {
		err = fmt.Errorf("strict decoding error: %w", errors.Join(strict...))
	}
	return err
}
