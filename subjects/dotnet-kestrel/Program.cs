using System.Net;
using System.Security.Cryptography.X509Certificates;
using System.Text.Json;
using System.Text.Json.Serialization;
using Microsoft.AspNetCore.Server.Kestrel.Core;

var builder = WebApplication.CreateBuilder(args);
var options = builder.Configuration;

// At the default level, lines are written for each request.
builder.Logging.SetMinimumLevel(LogLevel.Warning);
// The default is to wait 30 s for connections that are open.
builder.Services.Configure<HostOptions>(host => host.ShutdownTimeout = TimeSpan.FromSeconds(1));

builder.WebHost.ConfigureKestrel(kestrel =>
{
    if (options.GetValue<int?>("port") is int port)
    {
        // On a plain port, Kestrel speaks either the one or the other.
        var protocols = options.GetValue<bool>("h2c") ? HttpProtocols.Http2 : HttpProtocols.Http1;
        kestrel.Listen(IPAddress.Loopback, port, listen => listen.Protocols = protocols);
    }
    if (options.GetValue<int?>("tls-port") is int tlsPort)
    {
        var certificate = X509Certificate2.CreateFromPemFile(options["cert"]!, options["key"]);
        kestrel.Listen(IPAddress.Loopback, tlsPort, listen =>
        {
            listen.Protocols = HttpProtocols.Http1AndHttp2;
            listen.UseHttps(certificate);
        });
    }
});

var app = builder.Build();

string[] methods = ["GET", "HEAD"];

app.MapMethods("/plaintext", methods, () => TypedResults.Text("Hello, World!"));

// TypedResults.Json would send it in chunks, without a Content-Length.
app.MapMethods("/json", methods, () =>
    TypedResults.Text(JsonSerializer.Serialize(new Message("Hello, World!")), "application/json"));

app.Run();

record Message([property: JsonPropertyName("message")] string Text);
