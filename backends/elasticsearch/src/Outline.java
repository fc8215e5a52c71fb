import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;

/**
 * A polygon round a place, the same for the same seed on every machine. It is irregular, yet no two
 * edges cross: the angle only grows from point to point.
 */
final class Outline {
    private static final int WAVES = 40;

    private final double[] amplitudes = new double[WAVES];
    private final double[] phases = new double[WAVES];
    private final SplittableRandom random;

    private Outline(long seed) {
        random = new SplittableRandom(seed);
        for (int i = 0; i < WAVES; i++) {
            // All of them together stay below 1, so that the centre stays within.
            amplitudes[i] = 0.25 * random.nextDouble() / StrictMath.pow(i + 1, 1.2);
            phases[i] = random.nextDouble() * 2 * Math.PI;
        }
    }

    /** In GeoJSON; the radius is in degrees of latitude. */
    static Map<String, Object> around(
            double lat, double lon, double radius, int points, long seed) {
        Outline outline = new Outline(seed);
        List<double[]> ring = new ArrayList<>();
        for (int i = 0; i < points; i++) {
            double angle = 2 * Math.PI * i / points;
            double distance = radius * outline.factor(angle);
            double north = distance * StrictMath.sin(angle);
            double east =
                    distance * StrictMath.cos(angle) / StrictMath.cos(StrictMath.toRadians(lat));
            ring.add(new double[] {rounded(lon + east), rounded(lat + north)});
        }
        ring.add(ring.get(0));
        // Map.of would give them in another order in each run.
        Map<String, Object> polygon = new LinkedHashMap<>();
        polygon.put("type", "Polygon");
        polygon.put("coordinates", List.of(ring));
        return polygon;
    }

    private double factor(double angle) {
        double factor = 1 + 0.01 * random.nextDouble();
        for (int i = 0; i < WAVES; i++) {
            factor += amplitudes[i] * StrictMath.sin((i + 1) * angle + phases[i]);
        }
        return factor;
    }

    /** Six decimals are 11 cm. */
    static double rounded(double degrees) {
        return Math.round(degrees * 1e6) / 1e6;
    }
}
