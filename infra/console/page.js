// The function of CloudFront that a request for a file of the console passes. The addresses of the application, such as `/sessions/ID`,
// are no files: they get the page, as on the embedded server. Only names of files have a dot.
function handler(event) {
  var request = event.request
  var name = request.uri.slice(request.uri.lastIndexOf('/') + 1)
  if (name.indexOf('.') === -1) request.uri = '/index.html'
  return request
}
