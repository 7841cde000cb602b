// Package conversion has custom resources converted by the webhooks that their definitions name.
//
// What is guaranteed:
//
//   - Many objects go out in few calls, several of which run at a time. A call ends after callTimeout.
//   - An object that a webhook refuses harms no other that went out with it: the rest is sent again without it.
//   - A webhook changes nothing of the metadata but labels and annotations, and cannot make one object into another.
//     Words and statuses are Kubernetes'.
//
// What may not be assumed: that a webhook is asked for one object at a time, or only once for it.
package conversion

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// review is a ConversionReview, of version v1 or v1beta1: on the wire they are the same.
type review struct {
	metav1.TypeMeta `json:",inline"`
	Request         *request  `json:"request,omitempty"`
	Response        *response `json:"response,omitempty"`
}

type request struct {
	UID               types.UID         `json:"uid"`
	DesiredAPIVersion string            `json:"desiredAPIVersion"`
	Objects           []json.RawMessage `json:"objects"`
}

type response struct {
	UID              types.UID         `json:"uid"`
	ConvertedObjects []json.RawMessage `json:"convertedObjects"`
	Result           metav1.Status     `json:"result"`
}

const reviewKind = "ConversionReview"

// reviewVersion is the first of those that a webhook understands that we do too.
func reviewVersion(understood []string) (string, error) {
	for _, v := range understood {
		if v == "v1" || v == "v1beta1" {
			return v, nil
		}
	}
	return "", errors.New("no supported conversion review versions")
}

// ask makes the body of a call.
func ask(version string, uid types.UID, toVersion string, objects []json.RawMessage) ([]byte, error) {
	return json.Marshal(review{
		TypeMeta: metav1.TypeMeta{Kind: reviewKind, APIVersion: apiextensions.GroupName + "/" + version},
		Request:  &request{UID: uid, DesiredAPIVersion: toVersion, Objects: objects},
	})
}

// errRefused is what a webhook itself says about the objects of a call. Fewer of them may go through.
type errRefused struct{ error }

// answered reads the answer to a call.
func answered(version string, uid types.UID, body []byte) ([]json.RawMessage, error) {
	var r review
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
	}
	wanted := metav1.TypeMeta{Kind: reviewKind, APIVersion: apiextensions.GroupName + "/" + version}
	switch {
	case version == "v1" && r.TypeMeta != wanted:
		want, got := wanted.GroupVersionKind(), r.GroupVersionKind()
		return nil, fmt.Errorf("expected webhook response of %v, got %v", want.String(), got.String())
	case r.Response == nil:
		return nil, errors.New("no response provided")
	case version == "v1" && r.Response.UID != uid:
		return nil, fmt.Errorf("expected response.uid=%q, got %q", uid, r.Response.UID)
	case r.Response.Result.Status == metav1.StatusSuccess:
		return r.Response.ConvertedObjects, nil
	case r.Response.Result.Message != "":
		return nil, errRefused{errors.New(r.Response.Result.Message)}
	}
	return nil, errRefused{fmt.Errorf("response.result.status was '%s', not 'Success'", r.Response.Result.Status)}
}

// accept checks what a webhook made of an object, and gives it the metadata that no conversion changes.
func accept(text json.RawMessage, given *unstructured.Unstructured, toVersion string) (*unstructured.Unstructured, error) {
	made := &unstructured.Unstructured{}
	if err := made.UnmarshalJSON(text); err != nil {
		return nil, invalid("object at index 0: %w", err)
	}
	want, got := given.GroupVersionKind(), made.GroupVersionKind()
	switch {
	case made.GetAPIVersion() != toVersion:
		return nil, invalid("object at index 0: invalid groupVersion (expected %v, received %v)", toVersion, got.GroupVersion())
	case got.Kind != want.Kind:
		return nil, invalid("object at index 0: invalid kind (expected %v, received %v)", want.Kind, got.Kind)
	}
	if err := same(given, made); err != nil {
		return nil, invalid("object: %w", err)
	}
	if err := restoreMetadata(given, made); err != nil {
		return nil, invalid("metadata: %w", err)
	}
	return made, nil
}

// errInvalid is an answer that is none.
type errInvalid struct{ error }

func invalid(format string, args ...any) error { return errInvalid{fmt.Errorf(format, args...)} }
