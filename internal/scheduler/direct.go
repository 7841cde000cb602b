package scheduler

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// direct sends the requests that each pod needs without client-go's work around a request, which costs as much as the
// request itself.
type direct struct {
	client *http.Client
	base   string
}

// directly returns a direct sender, or nil if the client does not use HTTP.
func directly(client rest.Interface) *direct {
	c, ok := client.(*rest.RESTClient)
	if !ok || c == nil || c.Client == nil {
		return nil
	}
	return &direct{client: c.Client, base: c.Get().URL().String()}
}

var protobuf = func() runtime.Encoder {
	found, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	return scheme.Codecs.EncoderForVersion(found.Serializer, corev1.SchemeGroupVersion)
}()

// bind reports whether the server has confirmed the binding. After any other answer the request is repeated with
// client-go, which interprets errors and delays.
func (d *direct) bind(ctx context.Context, binding *corev1.Binding) (bool, error) {
	body, err := runtime.Encode(protobuf, binding)
	if err != nil {
		return false, fmt.Errorf("encode binding: %w", err)
	}
	code, err := d.send(ctx, http.MethodPost, types.NamespacedName{Namespace: binding.Namespace, Name: binding.Name}, "/binding", contentType, body)
	return code == http.StatusCreated && err == nil, err
}

// patchStatus and remove report, like bind, whether the server has confirmed the request.
func (d *direct) patchStatus(ctx context.Context, pod types.NamespacedName, patch []byte) (bool, error) {
	code, err := d.send(ctx, http.MethodPatch, pod, "/status", patchType, patch)
	return code == http.StatusOK && err == nil, err
}

func (d *direct) remove(ctx context.Context, pod types.NamespacedName, options *metav1.DeleteOptions) (bool, error) {
	body, err := json.Marshal(options)
	if err != nil {
		return false, fmt.Errorf("encode how pod %s is deleted: %w", pod, err)
	}
	code, err := d.send(ctx, http.MethodDelete, pod, "", jsonType, body)
	return code == http.StatusOK && err == nil, err
}

// send sends one request about a pod and returns the status code.
func (d *direct) send(ctx context.Context, method string, pod types.NamespacedName, below string, kind []string, body []byte) (int, error) {
	at := d.base + "/namespaces/" + url.PathEscape(pod.Namespace) + "/pods/" + url.PathEscape(pod.Name) + below
	request, err := http.NewRequestWithContext(ctx, method, at, bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("%s pod %s: %w", method, pod, err)
	}
	request.Header["Content-Type"] = kind
	request.Header["Accept"] = contentType
	answer, err := d.client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("%s pod %s: %w", method, pod, err)
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, mostAnswer)) // so that the connection can be used again
	return answer.StatusCode, err
}

// mostAnswer is larger than almost any pod. After a longer answer the connection is not used again.
const mostAnswer = 1 << 20

var (
	contentType = []string{runtime.ContentTypeProtobuf}
	patchType   = []string{string(types.StrategicMergePatchType)}
	jsonType    = []string{runtime.ContentTypeJSON}
)
