import static io.netty.handler.codec.http.HttpHeaderNames.CONTENT_LENGTH;
import static io.netty.handler.codec.http.HttpHeaderNames.CONTENT_TYPE;

import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelPipeline;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.ServerChannel;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.epoll.EpollEventLoopGroup;
import io.netty.channel.epoll.EpollServerSocketChannel;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.FullHttpResponse;
import io.netty.handler.codec.http.HttpMethod;
import io.netty.handler.codec.http.HttpObject;
import io.netty.handler.codec.http.HttpRequest;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.HttpServerKeepAliveHandler;
import io.netty.handler.codec.http.HttpServerUpgradeHandler;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.handler.codec.http2.CleartextHttp2ServerUpgradeHandler;
import io.netty.handler.codec.http2.Http2CodecUtil;
import io.netty.handler.codec.http2.Http2FrameCodecBuilder;
import io.netty.handler.codec.http2.Http2MultiplexHandler;
import io.netty.handler.codec.http2.Http2SecurityUtil;
import io.netty.handler.codec.http2.Http2ServerUpgradeCodec;
import io.netty.handler.codec.http2.Http2StreamFrameToHttpObjectCodec;
import io.netty.handler.ssl.ApplicationProtocolConfig;
import io.netty.handler.ssl.ApplicationProtocolNames;
import io.netty.handler.ssl.ApplicationProtocolNegotiationHandler;
import io.netty.handler.ssl.SslContext;
import io.netty.handler.ssl.SslContextBuilder;
import io.netty.handler.ssl.SslProvider;
import io.netty.handler.ssl.SupportedCipherSuiteFilter;
import io.netty.util.AsciiString;
import io.netty.util.ReferenceCountUtil;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;

public final class Hello {
    /** Answers requests, of a connection over HTTP/1.1 or of a stream over HTTP/2. */
    private static final class Answers extends SimpleChannelInboundHandler<HttpObject> {
        private static final byte[] PLAINTEXT = "Hello, World!".getBytes(StandardCharsets.UTF_8);
        // Netty brings nothing that writes JSON.
        private static final byte[] JSON =
            "{\"message\":\"Hello, World!\"}".getBytes(StandardCharsets.UTF_8);
        private static final byte[] NOT_FOUND = "Not Found".getBytes(StandardCharsets.UTF_8);

        @Override
        protected void channelRead0(ChannelHandlerContext context, HttpObject message) {
            if (message instanceof HttpRequest) {
                context.write(answer((HttpRequest) message));
            }
        }

        @Override
        public void channelReadComplete(ChannelHandlerContext context) {
            context.flush();
            context.fireChannelReadComplete();
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
            // A client that went away is no matter of the server.
            context.close();
        }

        private static FullHttpResponse answer(HttpRequest request) {
            switch (request.uri()) {
                case "/plaintext":
                    return answer(request, HttpResponseStatus.OK, "text/plain", PLAINTEXT);
                case "/json":
                    return answer(request, HttpResponseStatus.OK, "application/json", JSON);
                default:
                    return answer(request, HttpResponseStatus.NOT_FOUND, "text/plain", NOT_FOUND);
            }
        }

        private static FullHttpResponse answer(
                HttpRequest request, HttpResponseStatus status, String type, byte[] body) {
            // Over HTTP/2 the library does not leave out the body of a response to HEAD.
            boolean empty = request.method().equals(HttpMethod.HEAD);
            ByteBuf content = empty ? Unpooled.EMPTY_BUFFER : Unpooled.wrappedBuffer(body);
            FullHttpResponse response =
                new DefaultFullHttpResponse(HttpVersion.HTTP_1_1, status, content);
            response.headers().set(CONTENT_TYPE, type).setInt(CONTENT_LENGTH, body.length);
            return response;
        }
    }

    private static final class Http1 extends ChannelInitializer<Channel> {
        @Override
        protected void initChannel(Channel channel) {
            channel.pipeline().addLast(
                new HttpServerCodec(), new HttpServerKeepAliveHandler(), new Answers());
        }
    }

    private static Http2MultiplexHandler streams() {
        return new Http2MultiplexHandler(new ChannelInitializer<Channel>() {
            @Override
            protected void initChannel(Channel stream) {
                stream.pipeline().addLast(
                    new Http2StreamFrameToHttpObjectCodec(true), new Answers());
            }
        });
    }

    private static final class Http2 extends ChannelInitializer<Channel> {
        @Override
        protected void initChannel(Channel channel) {
            channel.pipeline().addLast(Http2FrameCodecBuilder.forServer().build(), streams());
        }
    }

    /** HTTP/1.1, and HTTP/2 both by prior knowledge and by upgrade. */
    private static final class Both extends ChannelInitializer<SocketChannel> {
        @Override
        protected void initChannel(SocketChannel channel) {
            HttpServerCodec codec = new HttpServerCodec();
            HttpServerUpgradeHandler upgrade = new HttpServerUpgradeHandler(codec, protocol ->
                AsciiString.contentEquals(Http2CodecUtil.HTTP_UPGRADE_PROTOCOL_NAME, protocol)
                    ? new Http2ServerUpgradeCodec(
                        Http2FrameCodecBuilder.forServer().build(), streams())
                    : null);
            channel.pipeline().addLast(
                new CleartextHttp2ServerUpgradeHandler(codec, upgrade, new Http2()));
            channel.pipeline().addLast(new NoUpgrade(upgrade));
        }
    }

    /** The first request of a connection that stays with HTTP/1.1. */
    private static final class NoUpgrade extends SimpleChannelInboundHandler<HttpRequest> {
        private final HttpServerUpgradeHandler upgrade;

        NoUpgrade(HttpServerUpgradeHandler upgrade) {
            this.upgrade = upgrade;
        }

        @Override
        protected void channelRead0(ChannelHandlerContext context, HttpRequest request) {
            ChannelPipeline pipeline = context.pipeline();
            pipeline.remove(upgrade);
            pipeline.addAfter(context.name(), null, new Answers());
            pipeline.replace(this, null, new HttpServerKeepAliveHandler());
            context.fireChannelRead(ReferenceCountUtil.retain(request));
        }
    }

    /** HTTP/1.1 or HTTP/2, as ALPN has it. */
    private static final class Tls extends ChannelInitializer<SocketChannel> {
        private final SslContext tls;

        Tls(SslContext tls) {
            this.tls = tls;
        }

        @Override
        protected void initChannel(SocketChannel channel) {
            channel.pipeline().addLast(tls.newHandler(channel.alloc()));
            String fallback = ApplicationProtocolNames.HTTP_1_1;
            channel.pipeline().addLast(new ApplicationProtocolNegotiationHandler(fallback) {
                @Override
                protected void configurePipeline(ChannelHandlerContext context, String protocol) {
                    boolean http2 = ApplicationProtocolNames.HTTP_2.equals(protocol);
                    context.pipeline().addLast(http2 ? new Http2() : new Http1());
                }
            });
        }
    }

    /** A provider of null leaves the choice to Netty. */
    private static SslContext tls(String cert, String key, String provider) throws Exception {
        return SslContextBuilder.forServer(new File(cert), new File(key))
            .sslProvider(provider == null ? null : SslProvider.valueOf(provider))
            .ciphers(Http2SecurityUtil.CIPHERS, SupportedCipherSuiteFilter.INSTANCE)
            .applicationProtocolConfig(new ApplicationProtocolConfig(
                ApplicationProtocolConfig.Protocol.ALPN,
                ApplicationProtocolConfig.SelectorFailureBehavior.NO_ADVERTISE,
                ApplicationProtocolConfig.SelectedListenerFailureBehavior.ACCEPT,
                ApplicationProtocolNames.HTTP_2,
                ApplicationProtocolNames.HTTP_1_1))
            .build();
    }

    /** The value after a flag, or null. */
    private static String value(String[] args, String flag) {
        int at = Arrays.asList(args).indexOf(flag);
        return at < 0 || at + 1 == args.length ? null : args[at + 1];
    }

    public static void main(String[] args) throws Exception {
        boolean epoll = Arrays.asList(args).contains("--epoll");
        EventLoopGroup acceptors = epoll ? new EpollEventLoopGroup(1) : new NioEventLoopGroup(1);
        EventLoopGroup workers = epoll ? new EpollEventLoopGroup() : new NioEventLoopGroup();
        Class<? extends ServerChannel> channels =
            epoll ? EpollServerSocketChannel.class : NioServerSocketChannel.class;
        ServerBootstrap bootstrap =
            new ServerBootstrap().group(acceptors, workers).channel(channels);
        List<Channel> listening = new ArrayList<>();
        String port = value(args, "--port");
        if (port != null) {
            boolean h2c = Arrays.asList(args).contains("--h2c");
            bootstrap.childHandler(h2c ? new Both() : new Http1());
            listening.add(bootstrap.bind("127.0.0.1", Integer.parseInt(port)).sync().channel());
        }
        String tlsPort = value(args, "--tls-port");
        if (tlsPort != null) {
            SslContext tls =
                tls(value(args, "--cert"), value(args, "--key"), value(args, "--tls-provider"));
            ServerBootstrap secured = bootstrap.clone().childHandler(new Tls(tls));
            listening.add(secured.bind("127.0.0.1", Integer.parseInt(tlsPort)).sync().channel());
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            acceptors.shutdownGracefully(0, 500, TimeUnit.MILLISECONDS).awaitUninterruptibly();
            workers.shutdownGracefully(0, 500, TimeUnit.MILLISECONDS).awaitUninterruptibly();
        }));
        for (Channel channel : listening) {
            channel.closeFuture().sync();
        }
    }
}
