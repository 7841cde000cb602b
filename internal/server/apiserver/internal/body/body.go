package body

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/internal/protobuf"
	"github.com/millrace/millrace/internal/server/apiserver/internal/negotiate"
	"github.com/millrace/millrace/internal/server/apiserver/internal/status"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/decode"
	"github.com/millrace/millrace/internal/server/resource/tree"
)

// Body is the body of a request, not yet decoded.
type Body struct {
	Bytes []byte
	Media negotiate.Media
}

// Reader reads bodies.
type Reader struct {
	MaxBytes int64         // largest body, decompressed
	Timeout  time.Duration // time in which a body must arrive
}

// Read reads a body of bounded size in one of the known formats.
func (re Reader) Read(w http.ResponseWriter, r *http.Request) (Body, error) {
	b := Body{}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case r.Header.Get("Content-Type") == "":
	case err != nil:
		return b, status.UnsupportedMediaType(unknownMedia)
	case kind == resource.JSONType:
	case kind == negotiate.YAMLType:
		b.Media = negotiate.YAML
	case kind == resource.ProtobufType:
		b.Media = negotiate.Protobuf
	default:
		return b, status.UnsupportedMediaType(unknownMedia)
	}
	b.Bytes, err = re.ReadBytes(w, r)
	return b, err
}

const unknownMedia = "the body of the request was in an unknown format - accepted media types include: " + negotiate.ObjectTypes

func (re Reader) ReadBytes(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength != 0 {
		// A body that arrives slowly would occupy a seat. A request without a connection has no deadline.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(re.Timeout))
	}
	var in io.Reader = http.MaxBytesReader(w, r.Body, re.MaxBytes)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, apierrors.NewBadRequest("the body is not gzip: " + err.Error())
		}
		in = io.LimitReader(z, re.MaxBytes+1)
	}
	if n := r.ContentLength; n > 0 && n <= re.MaxBytes && r.Header.Get("Content-Encoding") == "" {
		b := make([]byte, n)
		_, err := io.ReadFull(in, b)
		return b, readError(err)
	}
	b, err := io.ReadAll(in)
	if err == nil && int64(len(b)) > re.MaxBytes {
		err = &http.MaxBytesError{Limit: re.MaxBytes}
	}
	return b, readError(err)
}

func readError(err error) error {
	var tooBig *http.MaxBytesError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &tooBig):
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", tooBig.Limit))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusRequestTimeout,
			Reason: metav1.StatusReasonTimeout, Message: "the body did not arrive in time"}}
	}
	return apierrors.NewBadRequest("the body could not be read: " + err.Error())
}

// json returns the body as JSON text.
func (b Body) json() ([]byte, error) {
	if b.Media == negotiate.YAML {
		return yaml.YAMLToJSON(b.Bytes)
	}
	return b.Bytes, nil
}

// DecodeInto decodes the body as an object of the wanted kind. Unknown and duplicate fields are returned as strict
// errors, because the request's field validation decides whether they matter.
func (b Body) DecodeInto(into runtime.Object, want schema.GroupVersionKind) (strict []error, err error) {
	if b.Media == negotiate.Protobuf {
		return nil, b.decodeProto(into, want)
	}
	text, err := b.json()
	if err != nil {
		return nil, b.unrecognized(want, err)
	}
	if b.Media == negotiate.YAML {
		if _, err := identify(text); err != nil {
			return nil, b.unrecognized(want, err)
		}
		strict = repeatedKeys(b.Bytes)
	}
	found, err := decodeJSON(text, into, want)
	return append(strict, found...), err
}

// Unmarshal decodes a text into a zero object. The text must not be modified afterwards.
func Unmarshal(text []byte, into runtime.Object) (strict []error, err error) {
	if o, ok := into.(*tree.Object); ok {
		return unmarshalTree(text, o)
	}
	if harmless, found := harmlessText(text); found {
		if err := checkExponents(harmless, into, strictjson.UnmarshalCaseSensitivePreserveInts); err != nil {
			return nil, err
		}
	}
	if decode.JSON(text, into) {
		return nil, nil
	}
	reflect.ValueOf(into).Elem().SetZero() // it may hold parts of the refused object
	return strictjson.UnmarshalStrict(text, into)
}

// unmarshalTree decodes a text into an object that must contain its kind.
func unmarshalTree(text []byte, o *tree.Object) (strict []error, err error) {
	if parsed, ok := tree.ParseObject(string(text)); ok {
		o.Become(parsed)
		return nil, nil
	}
	into := o.Tree()
	var ok bool
	if into.Object, ok = decode.Tree(text); !ok {
		into.Object = nil
		strict, err = strictjson.UnmarshalStrict(text, &into.Object)
	}
	if err == nil && into.GetKind() == "" {
		err = runtime.NewMissingKindErr(string(text))
	}
	return strict, err
}

// decodeJSON decodes a text as the wanted kind into a zero object. The text must not be modified afterwards.
func decodeJSON(text []byte, into runtime.Object, want schema.GroupVersionKind) (strict []error, err error) {
	own := typeMetaOf(into)
	strict, failure := Unmarshal(text, into)
	var said metav1.TypeMeta
	o, isTree := into.(*tree.Object)
	switch ordinary := failure == nil && len(strict) == 0; {
	case own != nil && ordinary:
		said = *own
	case isTree && ordinary && typeMetaIn(o, &said):
	default:
		if said, err = identify(text); err != nil { // an error in kind or apiVersion is reported before all others
			return nil, Body{Bytes: text}.unrecognized(want, err)
		}
	}
	switch {
	case isTree && failure == nil:
		return strict, checkCustomKind(said, o, want)
	case isTree && runtime.IsMissingKind(failure):
		return strict, Body{Bytes: text}.unrecognized(want, failure)
	}
	if err := checkKind(said.APIVersion, said.Kind, want); err != nil {
		return nil, Body{Bytes: text}.otherKind(said, want, err)
	}
	if failure != nil {
		return nil, unfit(want, failure)
	}
	into.GetObjectKind().SetGroupVersionKind(want)
	return strict, nil
}

// typeMetaIn reads the version and kind of an object, and reports whether it has both.
func typeMetaIn(o *tree.Object, said *metav1.TypeMeta) bool {
	if parts, ok := tree.Parts(o); ok {
		said.APIVersion, said.Kind = parts.Said()
		return true
	}
	var hasVersion, hasKind bool
	object := o.Tree().Object
	said.APIVersion, hasVersion = object["apiVersion"].(string)
	said.Kind, hasKind = object["kind"].(string)
	return hasVersion && hasKind
}

// typeMetaOf returns the TypeMeta of a decoded object, or nil if that is not the struct's first field.
func typeMetaOf(o runtime.Object) *metav1.TypeMeta {
	v := reflect.ValueOf(o)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct || v.Elem().NumField() == 0 {
		return nil
	}
	first := v.Elem().Field(0)
	if !first.CanInterface() {
		return nil
	}
	t, _ := first.Addr().Interface().(*metav1.TypeMeta)
	return t
}

func (b Body) decodeProto(into runtime.Object, want schema.GroupVersionKind) error {
	message, ok := into.(protobuf.Message)
	if !ok {
		return status.UnsupportedMediaType(unknownMedia)
	}
	env, err := b.envelope()
	if err != nil {
		return b.unrecognized(want, err)
	}
	if err := checkKind(env.APIVersion, env.Kind, want); err != nil {
		return b.otherKind(metav1.TypeMeta{APIVersion: env.APIVersion, Kind: env.Kind}, want, err)
	}
	if harmless, found := harmlessMessage(env.Raw); found {
		err = checkExponents(harmless, into, func(b []byte, o any) error { return o.(protobuf.Message).Unmarshal(b) })
	}
	if err == nil {
		err = message.Unmarshal(env.Raw)
	}
	if err != nil {
		return unfit(want, err)
	}
	into.GetObjectKind().SetGroupVersionKind(want)
	return nil
}

// unfit is the error for a body that is not what a kind's Go type can hold.
func unfit(want schema.GroupVersionKind, why error) error {
	err := apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", want.Kind, want.Version, want.Kind, why))
	if why == errExponent {
		return ExponentError{err}
	}
	return err
}

// checkKind compares the kind and version in a body with the wanted ones. A missing one is accepted.
func checkKind(apiVersion, kind string, want schema.GroupVersionKind) error {
	if (apiVersion == "" || apiVersion == want.GroupVersion().String()) && (kind == "" || kind == want.Kind) {
		return nil
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return err
	}
	if apiVersion == "" {
		gv = want.GroupVersion()
	}
	if kind == "" {
		kind = want.Kind
	}
	if gv.WithKind(kind) == want { // "/v1" is "v1"
		return nil
	}
	return mismatch(gv.WithKind(kind), want)
}

// Unfit returns the error for a body that is not an object of the kind.
func Unfit(of *resource.Kind, why error) error {
	return unfit(of.GroupVersionKind(), why)
}

// Clean removes unknown fields from an object where decoding does not, and adds them to the strict errors.
func Clean(of *resource.Kind, o runtime.Object, found []error) (strict []error, err error) {
	if of.Clean == nil {
		return found, nil
	}
	unknown, err := of.Clean(o.(resource.Object))
	if err != nil {
		return nil, err
	}
	return append(found, unknown...), nil
}

func StrictText(strict []error) string {
	all := make([]string, len(strict))
	for i, e := range strict {
		all[i] = e.Error()
	}
	return "strict decoding error: " + strings.Join(all, ", ")
}

// Report returns strict errors as an error or sends them as warnings, depending on the request's field validation.
func Report(strict []error, validation string, want schema.GroupVersionKind, warn func(string)) error {
	if len(strict) == 0 {
		return nil
	}
	switch validation {
	case metav1.FieldValidationIgnore:
	case metav1.FieldValidationStrict:
		return cannotHandle(want, want, StrictText(strict))
	default:
		for _, e := range strict {
			for line := range strings.SplitSeq(strings.TrimPrefix(e.Error(), yamlFindings), "\n") {
				warn(strings.TrimSpace(line))
			}
		}
	}
	return nil
}
