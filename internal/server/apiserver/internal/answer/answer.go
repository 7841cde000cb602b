package answer

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/millrace/millrace/internal/server/apiserver/internal/body"
	"github.com/millrace/millrace/internal/server/apiserver/internal/negotiate"
	"github.com/millrace/millrace/internal/server/apiserver/internal/status"
	"github.com/millrace/millrace/internal/server/resource"
)

// Answer sends objects of one kind in the version, the format and the shape that the request asks for.
type Answer struct {
	// Within ends with the request, or earlier.
	Within  context.Context
	Writer  *Response
	Request *http.Request
	Face    *resource.Face
	Kind    *resource.Kind
	Format  negotiate.Format
	Log     *slog.Logger
}

// CheckShape refuses a list as PartialObjectMetadata, and an object as PartialObjectMetadataList.
func (a *Answer) CheckShape() error {
	if a.Format.Shape == negotiate.PartialList {
		return status.Unacceptable(fmt.Sprintf("you requested PartialObjectMetadataList, but the requested object is not a list (*%s.%s)", body.InternalName(a.Kind.Group), a.Kind.Kind))
	}
	return status.Unacceptable(fmt.Sprintf("you requested PartialObjectMetadata, but the requested object is a list (*%s)", a.listType()))
}

// listType returns the name of kube-apiserver's Go type for a list.
func (a *Answer) listType() string {
	if a.Kind.Custom {
		return "unstructured.UnstructuredList"
	}
	return body.InternalName(a.Kind.Group) + "." + a.Kind.ListKind
}
