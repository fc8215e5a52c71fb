import java.util.function.Supplier;
import org.apache.pekko.http.javadsl.marshallers.jackson.Jackson;
import org.apache.pekko.http.javadsl.model.HttpEntities;
import org.apache.pekko.http.javadsl.model.HttpResponse;
import org.apache.pekko.http.javadsl.model.ResponseEntity;
import org.apache.pekko.http.javadsl.server.AllDirectives;
import org.apache.pekko.http.javadsl.server.Route;
import org.apache.pekko.stream.javadsl.Source;

final class Routes extends AllDirectives {
    public static final class Message {
        private final String message;

        Message(String message) {
            this.message = message;
        }

        public String getMessage() {
            return message;
        }
    }

    Route all() {
        return concat(
            path("plaintext", () -> getOrHead(() -> complete("Hello, World!"))),
            path("json", () -> getOrHead(
                () -> completeOK(new Message("Hello, World!"), Jackson.marshaller()))));
    }

    /** Bodies of answers to HEAD are left out by Pekko HTTP over HTTP/1.1, but sent over HTTP/2. */
    private Route getOrHead(Supplier<Route> inner) {
        return concat(get(inner), head(() -> mapResponse(Routes::withoutBody, inner)));
    }

    private static HttpResponse withoutBody(HttpResponse response) {
        ResponseEntity entity = response.entity();
        long length = entity.getContentLengthOption().getAsLong();
        return response.withEntity(
            HttpEntities.create(entity.getContentType(), length, Source.empty()));
    }
}
