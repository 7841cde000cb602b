package body

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/internal/protobuf"
	"github.com/millrace/millrace/internal/server/apiserver/internal/negotiate"
	"github.com/millrace/millrace/internal/server/resource/tree"
)

// identify decodes the kind and version of a text.
func identify(text []byte) (metav1.TypeMeta, error) {
	var said struct {
		APIVersion string `json:"apiVersion,omitempty"`
		Kind       string `json:"kind,omitempty"`
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return metav1.TypeMeta{}, fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
	}
	return metav1.TypeMeta{APIVersion: said.APIVersion, Kind: said.Kind}, nil
}

// unrecognized refuses a body without kind and version.
func (b Body) unrecognized(want schema.GroupVersionKind, err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", want.Kind, err, b.excerpt()))
}

// envelope decodes the envelope of a protobuf document.
func (b Body) envelope() (protobuf.Envelope, error) {
	switch {
	case len(b.Bytes) == 0:
		return protobuf.Envelope{}, errors.New("empty data")
	case string(b.Bytes) == protobuf.Magic:
		return protobuf.Envelope{}, errors.New("empty body")
	}
	return protobuf.Open(b.Bytes)
}

// excerpt returns the beginning of a body: unchanged if it looks like JSON.
func (b Body) excerpt() string {
	const most = 30
	text, more := b.Bytes, ""
	if len(text) > most {
		text, more = text[:most], " ..."
	}
	switch {
	case len(text) == 0:
		return "<empty>"
	case text[0] == '{':
		return string(text) + more
	}
	return fmt.Sprintf("%x%s", text, more)
}

// mismatch returns the error for a body of another kind than the wanted one.
func mismatch(found, want schema.GroupVersionKind) error {
	if found.GroupKind() == want.GroupKind() && scheme.Scheme.Recognizes(found) {
		return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", found.GroupVersion(), want.GroupVersion()))
	}
	return cannotHandle(found, want, Misfit(found, want))
}

func Misfit(found, want schema.GroupVersionKind) string {
	if !scheme.Scheme.Recognizes(found) {
		return unregistered(found).Error()
	}
	return fmt.Sprintf("converting (%s.%s) to (%s.%s): unknown conversion", found.Version, found.Kind, InternalName(want.Group), want.Kind)
}

func unregistered(gvk schema.GroupVersionKind) error {
	return fmt.Errorf("no kind %q is registered for version %q in scheme \"pkg/runtime/scheme.go:111\"", gvk.Kind, gvk.GroupVersion())
}

func cannotHandle(found, want schema.GroupVersionKind, why string) error {
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %s", found.Kind, found.Version, want.Kind, why))
}

// InternalName returns the Go package in which kube-apiserver keeps a group's internal types: its messages contain it.
func InternalName(group string) string {
	if group == "" || group == "events.k8s.io" {
		return "core"
	}
	name, _, _ := strings.Cut(group, ".")
	return name
}

// otherKind refuses a body of another kind than the wanted one. If the body is also invalid as that kind, the error
// says so.
func (b Body) otherKind(said metav1.TypeMeta, want schema.GroupVersionKind, refusal error) error {
	if _, known := refusal.(apierrors.APIStatus); !known {
		return b.unrecognized(want, refusal)
	}
	if b.Media == negotiate.Protobuf {
		return refusal
	}
	found := schema.FromAPIVersionAndKind(said.APIVersion, said.Kind)
	if said.APIVersion == "" {
		found = want.GroupVersion().WithKind(said.Kind)
	}
	if o, err := scheme.Scheme.New(found); err == nil {
		if err := strictjson.UnmarshalCaseSensitivePreserveInts(b.Bytes, o); err != nil {
			return cannotHandle(found, want, err.Error())
		}
	}
	return refusal
}

// yamlFindings begins the error for a YAML text with duplicate keys.
const yamlFindings = "yaml: unmarshal errors:\n"

func repeatedKeys(text []byte) []error {
	err := yaml.UnmarshalStrict(text, &map[string]any{})
	if err == nil {
		return nil
	}
	return []error{fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "))}
}

// DecodeOptions decodes options, which may have any group and version.
func (b Body) DecodeOptions(into runtime.Object, kind string) error {
	if b.Media == negotiate.Protobuf {
		env, err := b.envelope()
		if err == nil {
			err = checkOptions(metav1.TypeMeta{APIVersion: env.APIVersion, Kind: env.Kind}, kind)
		}
		if err == nil {
			err = into.(protobuf.Message).Unmarshal(env.Raw)
		}
		return badRequest(err)
	}
	text, err := b.json()
	if err != nil {
		return badRequest(err)
	}
	said, err := identify(text)
	if err == nil {
		err = checkOptions(said, kind)
	}
	if err == nil {
		err = strictjson.UnmarshalCaseSensitivePreserveInts(text, into)
	}
	return badRequest(err)
}

func checkOptions(said metav1.TypeMeta, kind string) error {
	gv, err := schema.ParseGroupVersion(said.APIVersion)
	switch {
	case err != nil:
		return err
	case said.APIVersion == "":
		gv = metav1.SchemeGroupVersion
	}
	if said.Kind != "" && said.Kind != kind {
		return unregistered(gv.WithKind(said.Kind))
	}
	return nil
}

func badRequest(err error) error {
	if err == nil {
		return nil
	}
	return apierrors.NewBadRequest(err.Error())
}

// checkCustomKind compares the kind and version of a custom resource with the wanted ones. Both must be there.
func checkCustomKind(said metav1.TypeMeta, o *tree.Object, want schema.GroupVersionKind) error {
	if said.APIVersion != want.GroupVersion().String() {
		return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", said.APIVersion, want.GroupVersion()))
	}
	if said.Kind != want.Kind {
		return apierrors.NewInvalid(schema.GroupKind{Group: want.Group, Kind: said.Kind}, o.GetName(), field.ErrorList{field.Invalid(field.NewPath("kind"), said.Kind, "must be "+want.Kind)})
	}
	return nil
}
