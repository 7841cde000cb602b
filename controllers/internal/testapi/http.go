package testapi

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A call is a request, taken apart.
type call struct {
	request     *http.Request
	kind        Kind
	key         objectKey
	subresource string
	body        []byte
	metaOnly    bool // the client wants PartialObjectMetadata
}

// RoundTrip makes the server a transport.
func (s *Server) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := request.Context().Err(); err != nil {
		return nil, err
	}
	before, after := s.interceptors()
	if before != nil {
		if err := before(request); err != nil {
			return nil, err
		}
	}
	response := s.serve(request)
	if after != nil {
		if err := after(request); err != nil {
			response.Body.Close()
			return nil, err
		}
	}
	return response, nil
}

func (s *Server) serve(request *http.Request) *http.Response {
	if request.Method == http.MethodGet {
		if answer, ok := s.discovery(request.URL.Path); ok {
			return reply(request, http.StatusOK, answer)
		}
	}
	c, err := s.parse(request)
	if err != nil {
		return refuse(request, err)
	}
	if request.Method == http.MethodGet && request.URL.Query().Get("watch") != "" {
		return s.watch(c)
	}
	answer, err := s.answer(c)
	if err != nil {
		return refuse(request, err)
	}
	code := http.StatusOK
	if request.Method == http.MethodPost {
		code = http.StatusCreated
	}
	return reply(request, code, answer)
}

func (s *Server) answer(c *call) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.request.Method == http.MethodGet && c.key.name == "":
		return s.listLocked(c)
	case c.request.Method == http.MethodGet:
		return s.getLocked(c)
	case c.request.Method == http.MethodPost:
		return s.createLocked(c)
	case c.request.Method == http.MethodPut:
		return s.updateLocked(c)
	case c.request.Method == http.MethodPatch:
		return s.patchLocked(c)
	case c.request.Method == http.MethodDelete && c.key.name == "":
		return s.deleteAllLocked(c)
	case c.request.Method == http.MethodDelete:
		return s.deleteLocked(c, c.key)
	}
	return nil, apierrors.NewMethodNotSupported(c.key.resource, c.request.Method)
}

// parse understands /api/v1/… and /apis/group/version/… paths.
func (s *Server) parse(request *http.Request) (*call, error) {
	c := &call{request: request, metaOnly: strings.Contains(request.Header.Get("Accept"), "as=PartialObjectMetadata")}
	if request.Body != nil {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		c.body = body
	}
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	var gv schema.GroupVersion
	switch {
	case len(parts) > 2 && parts[0] == "api":
		gv, parts = schema.GroupVersion{Version: parts[1]}, parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		gv, parts = schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:]
	default:
		return nil, apierrors.NewNotFound(schema.GroupResource{}, request.URL.Path)
	}
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		c.key.namespace, parts = parts[1], parts[2:]
	}
	kind, ok := s.kind(gv, parts[0])
	if !ok {
		return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "the server could not find the requested resource", 0, true)
	}
	c.kind, c.key.resource = kind, kind.groupResource()
	if len(parts) > 1 {
		c.key.name = parts[1]
	}
	if len(parts) > 2 {
		c.subresource = parts[2]
	}
	return c, nil
}

func (s *Server) kind(gv schema.GroupVersion, resource string) (Kind, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.kinds {
		if k.GroupVersion() == gv && k.Resource == resource {
			return k, true
		}
	}
	return Kind{}, false
}

func reply(request *http.Request, code int, answer any) *http.Response {
	data, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	return stream(request, code, io.NopCloser(bytes.NewReader(data)))
}

func stream(request *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Request: request, Body: body, ContentLength: -1,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": []string{"application/json"}},
	}
}

func refuse(request *http.Request, err error) *http.Response {
	status := apierrors.APIStatus(apierrors.NewInternalError(err))
	if known, ok := err.(apierrors.APIStatus); ok {
		status = known
	}
	body := status.Status()
	body.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return reply(request, int(body.Code), body)
}

// discovery answers the paths below which kinds are named.
func (s *Server) discovery(path string) (any, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch path {
	case "/api":
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}, true
	case "/apis":
		return s.groupsLocked(), true
	}
	gv, err := schema.ParseGroupVersion(strings.TrimPrefix(strings.TrimPrefix(path, "/apis/"), "/api/"))
	if err != nil {
		return nil, false
	}
	list := metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(),
	}
	for _, k := range s.kinds {
		if k.GroupVersion() == gv {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: k.Resource, SingularName: strings.ToLower(k.Kind), Namespaced: k.Namespaced, Kind: k.Kind,
				Verbs: metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
			})
		}
	}
	return list, len(list.APIResources) > 0
}

func (s *Server) groupsLocked() metav1.APIGroupList {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	seen := map[string]bool{"": true}
	for _, k := range s.kinds {
		if seen[k.Group] {
			continue
		}
		seen[k.Group] = true
		version := metav1.GroupVersionForDiscovery{GroupVersion: k.GroupVersion().String(), Version: k.Version}
		list.Groups = append(list.Groups, metav1.APIGroup{Name: k.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version})
	}
	return list
}
